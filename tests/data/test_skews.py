"""Skews: what they change, what they leave alone, and what of them is in partition.csv."""

import math
from operator import attrgetter

import numpy as np
import pytest
from conftest import own_kinds_of

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.data.shifts import groups_of
from fedsim.disk.tables import PARTITION, to_csv
from fedsim.scenario import read
from fedsim.study.label_skew import heterogeneity

RNG = np.random.default_rng(0)
CLASSES, N = 5, 7
IMAGES = fedsim.Arrays(
    RNG.integers(0, 256, (140, 6, 6, 2), np.uint8), np.arange(140) % CLASSES, scale=1 / 255
)
BASE = {"kind": "supplied", "clients": N, "test": 0.25, "validation": 0.1, "client_test": 0.3}
STRONG = {
    "feature_noise": {"std": 2.0},
    "rotation": {"max": 30.0},
    "label_noise": {"rate": 0.5},
    "concept_shift": {"groups": 3},
}
NEUTRAL = {
    "feature_noise": {"std": 0.0},
    "rotation": {"degrees": [0.0, 360.0]},
    "label_noise": {"rate": 0.0},
    "concept_shift": {"groups": 1},
}
SETS = ("train.x", "train.y", "test.x", "test.y", "validation.x", "validation.y")


def link(kind, **parameters):
    return {"kind": kind, **parameters}


def federation(*skews, data=IMAGES, seed=0, dtype="float32", **sections):
    section = {**BASE, "skew": list(skews)}
    numerics = {"dtype": dtype}
    scenario = {"name": "s", "data": section, "seeds": [seed], "numerics": numerics, **sections}
    return federations_of(read(scenario), data, np.dtype(dtype))[seed]


def same(one, other, names=SETS) -> bool:
    return all(np.array_equal(attrgetter(name)(one), attrgetter(name)(other)) for name in names)


def test_every_skew_is_in_the_tables():
    assert set(STRONG) == set(NEUTRAL) == set(own_kinds_of("skew"))


@pytest.mark.parametrize("kind", NEUTRAL)
def test_without_strength_nothing_changes(kind):
    plain, skewed = federation(), federation(link(kind, **NEUTRAL[kind]))
    assert same(plain, skewed)
    assert skewed.train.x.dtype == np.uint8
    assert plain.fingerprint() == skewed.fingerprint()
    assert not skewed.skews[f"skew/{kind}"].any()


@pytest.mark.parametrize("kind", STRONG)
def test_a_skew_is_decided_by_seed_and_client_alone(kind):
    skew = link(kind, **STRONG[kind])
    one, again = federation(skew), federation(skew, method="scaffold", rounds=9)
    assert same(one, again) and one.fingerprint() == again.fingerprint()
    part = "train.x" if kind in ("feature_noise", "rotation") else "train.y"
    assert not same(one, federation(skew, seed=1), [part])
    before = link("concept_shift" if part == "train.x" else "feature_noise")
    assert same(one, federation(before, skew), [part])  # its draws are its own


@pytest.mark.parametrize("kind", STRONG)
def test_only_the_clients_own_samples_change(kind):
    given = fedsim.Arrays(*(np.array(part) for part in (IMAGES.x, IMAGES.y)), scale=1 / 255)
    plain, skewed = federation(), federation(link(kind, **STRONG[kind]), data=given)
    assert np.array_equal(given.x, IMAGES.x) and np.array_equal(given.y, IMAGES.y)
    held = ("holders.indices", "holders.offsets", "test_holders.indices", "test_holders.offsets")
    assert same(plain, skewed, (*held, "test.y", "validation.y"))
    for name in ("test", "validation"):
        stored = getattr(plain, name).x.astype(np.float32) * np.float32(1 / 255)
        assert np.array_equal(getattr(skewed, name).x * np.float32(skewed.scale), stored)
    numbers = skewed.skews[f"skew/{kind}"]
    assert len(numbers) == N
    assert len(set(numbers.tolist())) == {"label_noise": 1, "concept_shift": 3}.get(kind, N)
    before, after = plain.fingerprint(), skewed.fingerprint()
    assert before["data"] == after["data"] and before["partition"] != after["partition"]


def test_own_test_samples_are_skewed_alike():
    plain, skewed = federation(), federation(link("rotation"), link("concept_shift", groups=4))
    assert skewed.train.x.dtype == np.uint8
    for client in range(N):
        turns = int(skewed.skews["skew/rotation"][client]) // 90
        group = int(skewed.skews["skew/concept_shift"][client])
        for rows in (plain.holders.of(client), plain.test_holders.of(client)):
            turned = np.rot90(plain.train.x[rows], turns, (1, 2))
            assert len(rows) and np.array_equal(skewed.train.x[rows], turned)
            assert np.array_equal(skewed.train.y[rows], (plain.train.y[rows] + group) % CLASSES)


def bilinear(image, degrees):
    """One image rotated counterclockwise: every pixel from the four around where it came from."""
    height, width, _ = image.shape
    out, angle = np.zeros(image.shape), math.radians(degrees)
    for i in range(height):
        for j in range(width):
            y, x = i - (height - 1) / 2, j - (width - 1) / 2
            row = math.cos(angle) * y + math.sin(angle) * x + (height - 1) / 2
            column = -math.sin(angle) * y + math.cos(angle) * x + (width - 1) / 2
            top, left = math.floor(row), math.floor(column)
            inside = 0 <= row <= height - 1 and 0 <= column <= width - 1
            for a, b in ((top, left), (top + 1, left), (top, left + 1), (top + 1, left + 1)):
                if inside and 0 <= a < height and 0 <= b < width:
                    out[i, j] += (1 - abs(row - a)) * (1 - abs(column - b)) * image[a, b]
    return out


def test_other_angles_are_interpolated():
    plain, skewed = federation(), federation(link("rotation", max=40.0), dtype="float64")
    assert skewed.train.x.dtype == skewed.test.x.dtype == np.float64 and skewed.scale == 1.0
    for client, angle in enumerate(skewed.skews["skew/rotation"]):
        assert 0 < abs(angle) <= 40
        row = plain.holders.of(client)[0]
        turned = bilinear(plain.train.x[row] / 255, angle)
        np.testing.assert_allclose(skewed.train.x[row], turned, atol=1e-12)


def test_images_that_are_not_square_keep_their_frame():
    x = RNG.normal(size=(40, 4, 6)).astype(np.float32)
    arrays = fedsim.Arrays(x, np.arange(40) % 2)
    half = federation(link("rotation", degrees=[180.0]), data=arrays)
    assert np.array_equal(half.train.x, federation(data=arrays).train.x[:, ::-1, ::-1])
    assert federation(link("rotation", degrees=[90.0]), data=arrays).train.x.shape[1:] == (4, 6)


def test_noise_grows_from_client_to_client():
    arrays = fedsim.Arrays(np.zeros((7000, 20)), np.arange(7000) % 2)
    f = federation(link("feature_noise", std=0.7), data=arrays)
    np.testing.assert_allclose(f.skews["skew/feature_noise"], 0.7 * np.arange(1, N + 1) / N)
    measured = [f.train.x[f.holders.of(k)].std() for k in range(N)]
    np.testing.assert_allclose(measured, f.skews["skew/feature_noise"], rtol=0.05)
    assert not f.test.x.any()
    drawn = federation(link("feature_noise", std=0.7, levels="uniform"), data=arrays)
    uniform = drawn.skews["skew/feature_noise"]
    assert (0 < uniform).all() and (uniform < 0.7).all()
    assert not np.array_equal(np.sort(uniform), uniform)


@pytest.mark.parametrize("flip", ["symmetric", "pair"])
def test_a_share_of_the_labels_is_wrong(flip):
    arrays = fedsim.Arrays(np.zeros((14000, 1)), np.arange(14000) % CLASSES)
    plain = federation(data=arrays)
    noisy = federation(link("label_noise", rate=0.4, flip=flip), data=arrays)
    expected = [1, 0, 0, 0] if flip == "pair" else [0.25] * 4
    for client in range(N):
        rows = plain.holders.of(client)
        moved = (noisy.train.y[rows] - plain.train.y[rows]) % CLASSES
        assert abs((moved > 0).mean() - 0.4) < 0.05
        shares = np.bincount(moved, minlength=CLASSES)[1:] / max((moved > 0).sum(), 1)
        np.testing.assert_allclose(shares, expected, atol=0.07)
    tests = plain.test_holders.indices
    assert np.array_equal(noisy.train.y[tests], plain.train.y[tests])
    both = federation(link("label_noise", rate=0.4, flip=flip, test=True), data=arrays)
    assert (both.train.y[tests] != plain.train.y[tests]).mean() > 0.3
    ranged = federation(link("label_noise", rate=0.4, least=0.1), data=arrays)
    rates = ranged.skews["skew/label_noise"]
    assert len(set(rates)) == N and rates.min() >= 0.1 and rates.max() <= 0.4


def test_groups_are_of_equal_size_and_do_not_depend_on_later_clients():
    many, few = (groups_of(3, clients, np.random.default_rng(5)) for clients in (11, 6))
    assert np.array_equal(many[:6], few)
    assert sorted(np.bincount(few)) == [2, 2, 2]
    assert np.ptp(np.bincount(many)) <= 1


def test_what_a_client_has_stands_in_partition_csv():
    f = federation(link("rotation", max=10.0), link("label_noise"), link("rotation"))
    assert list(f.skews) == ["skew/rotation", "skew/label_noise", "skew/rotation[1]"]
    record = heterogeneity(f).rows
    for name, numbers in f.skews.items():
        assert record[name] == numbers[record["client"]].tolist()
    header = "client,label,samples,skew/label_noise,skew/rotation,skew/rotation[1]\n"
    assert to_csv([record], PARTITION).startswith(header)


def test_the_page_about_them(root, tmp_path):
    page = (root / "docs" / "scenarios" / "clients.md").read_text()
    text = page.partition("<!-- skewed -->\n```yaml\n")[2].partition("```")[0]
    (tmp_path / "skewed.yaml").write_text(text)
    f = federations_of(read(tmp_path / "skewed.yaml"), None, np.dtype("float32"))[0]
    assert list(f.skews) == ["skew/rotation", "skew/label_noise", "skew/concept_shift"]
    assert f.label_shift_periods == (10,)
    assert sorted(set(f.skews["skew/rotation"])) == [0, 90, 180, 270]
