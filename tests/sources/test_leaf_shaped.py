"""Generated writers and speakers: LEAF's numbers of samples, and what users differ in."""

import inspect

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy.stats import skew

from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.sources import femnist_shaped, shakespeare_shaped

# Users, their samples, and standard deviation / mean of these, of LEAF's table 1. The skewness of
# FEMNIST is that of the histogram in LEAF's issue 49, of Shakespeare that of FedML's `stats.sh`.
FEMNIST = {"users": 3550, "samples": 805_263, "variation": 88.94 / 226.83, "skewness": 0.73}
SHAKESPEARE = {
    "users": 1129,
    "samples": 4_226_158,
    "variation": 6212.26 / 3743.28,
    "skewness": 3.27,
}


@pytest.mark.parametrize(
    ("make", "published", "part", "small"),
    [
        (femnist_shaped, FEMNIST, 20, {"pixels": 4, "classes": 2}),
        (shakespeare_shaped, SHAKESPEARE, 100, {"vocabulary": 2, "length": 1}),
    ],
)
def test_samples_vary_between_users_as_in_leaf(make, published, part, small):
    """At a twentieth, or a hundredth, of LEAF's mean, which is the default, with its users."""
    default = inspect.signature(make).parameters["mean"].default
    assert default * published["users"] == pytest.approx(published["samples"], rel=0.01)
    mean = default / part
    sizes = np.bincount(make(mean=mean, **small).client)
    assert len(sizes) == published["users"] and sizes.min() >= 1
    error = published["variation"] / np.sqrt(len(sizes))
    assert sizes.mean() / mean == pytest.approx(1, abs=4 * error)
    assert sizes.std() / sizes.mean() == pytest.approx(published["variation"], rel=0.1)
    assert skew(sizes) == pytest.approx(published["skewness"], rel=0.2)


def test_writers_draw_the_same_characters_in_their_own_style():
    alike = femnist_shaped(clients=5, mean=30, classes=3, pixels=12, style=0, jitter=0)
    assert len(np.unique(alike.x, axis=0)) == 3

    own = femnist_shaped(clients=5, mean=30, classes=3, pixels=12, style=0.2, jitter=0)
    drawn = {}
    for image, label, writer in zip(own.x, own.y, own.client, strict=True):
        drawn.setdefault((int(writer), int(label)), set()).add(image.tobytes())
    assert {len(images) for images in drawn.values()} == {1}
    assert len(set().union(*drawn.values())) == len(drawn) == 15


def test_an_image_is_ink_along_the_curve_of_its_class():
    """The definition, pixel by pixel, for a writer without a style."""
    arrays = femnist_shaped(clients=1, mean=20, classes=1, pixels=9, style=0, jitter=0, seed=4)
    rng = np.random.default_rng(4)
    rng.gamma(0.392**-2)  # the number of samples
    points = rng.random((5, 2))
    points = 2 * (points - points.min(0)) / (points.max(0) - points.min(0)) - 1

    nodes = np.cos(np.pi * (np.arange(5) + 0.5) / 5)
    at = np.linspace(nodes[0], nodes[-1], 32)
    curve = np.stack([Polynomial.fit(nodes, column, 4)(at) for column in points.T], axis=1)
    pixels = np.linspace(-1.6, 1.6, 9)
    for i, j in np.ndindex(9, 9):
        distance = (pixels[i] - curve[:, 0]) ** 2 + (pixels[j] - curve[:, 1]) ** 2
        ink = min(np.exp(-distance / (2 * 0.15**2)).sum() / 2, 1)
        assert arrays.x[0, i, j, 0] == pytest.approx(255 * ink, abs=1.001)


def follows(arrays, speaker: int, pair: tuple[int, int]) -> np.ndarray:
    """How often each character is the label of a speaker's samples that end with a pair."""
    ends = (arrays.x[:, -2:] == pair).all(axis=1) & (arrays.client == speaker)
    counts = np.bincount(arrays.y[ends], minlength=arrays.vocabulary)
    return counts / counts.sum()


def test_speakers_share_a_chain_and_have_a_habit_each():
    size = {"clients": 2, "mean": 30_000, "vocabulary": 3, "length": 2, "seed": 5}
    common = shakespeare_shaped(style=0.0, **size)
    habits = shakespeare_shaped(style=1.0, **size)
    apart = []
    for pair in np.ndindex(3, 3):
        first, second = (follows(common, speaker, pair) for speaker in (0, 1))
        np.testing.assert_allclose(first, second, atol=0.03)
        # A habit looks back at one character alone.
        first, second = (follows(habits, speaker, pair) for speaker in (0, 1))
        np.testing.assert_allclose(first, follows(habits, 0, (0, pair[1])), atol=0.03)
        apart.append(abs(first - second).max())
    assert max(apart) > 0.3
    shared = [follows(common, 0, pair) for pair in np.ndindex(3, 3)]
    assert max(abs(one - shared[0]).max() for one in shared[3::3]) > 0.3  # it looks back at two


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: femnist_shaped(clients=4, mean=10, pixels=8, seed=seed),
        lambda seed: shakespeare_shaped(clients=4, mean=10, length=6, seed=seed),
    ],
    ids=["femnist", "shakespeare"],
)
def test_a_seed_is_a_data_set_with_client_ids(make):
    one, same, other = make(1), make(1), make(2)
    assert np.array_equal(one.x, same.x) and np.array_equal(one.y, same.y)
    assert np.array_equal(one.client, same.client) and set(one.client) == {0, 1, 2, 3}
    assert one.x.shape != other.x.shape or (one.x != other.x).any()


@pytest.mark.parametrize("setting", ["pixels: 3", "classes: 1", "mean: 0", "style: 3"])
def test_a_size_without_a_meaning_is_refused(setting):
    with pytest.raises(ScenarioError, match=setting.split(":")[0]):
        read({"name": "s"}, (f"data={{kind: femnist_shaped, {setting}}}",))
