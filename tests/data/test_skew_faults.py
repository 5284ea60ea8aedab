"""Skews that do not fit the samples are refused, as are those that break their contract."""

import numpy as np
import pytest
from test_skews import IMAGES, federation, link

import fedsim
from fedsim.data import Skew
from fedsim.errors import ScenarioError

RNG = np.random.default_rng(0)
TEXTS = fedsim.Arrays(RNG.integers(0, 9, (60, 8)), RNG.integers(0, 9, (60, 8)))
TARGETS = fedsim.Arrays(RNG.normal(size=(60, 4)), RNG.normal(size=60))


@pytest.mark.parametrize(
    ("skew", "data", "message"),
    [
        (link("rotation"), TARGETS, "is for images [n, height, width, channels], and samples have"),
        (link("feature_noise"), TEXTS, "features that are numbers, and these samples are tokens"),
        (link("label_noise"), TEXTS, "changes the label of a sample, and here every token has one"),
        (link("label_noise"), TARGETS, "changes classes, and these targets are numbers"),
        (link("concept_shift"), TARGETS, "changes classes, and these targets are numbers"),
        (link("concept_shift", groups=6), IMAGES, "there are 5 classes; groups at most 5"),
        (link("rotation", max=3.0, degrees=[1.0]), IMAGES, "degrees and max are both given"),
        (link("feature_noise", std=1e39), IMAGES, "feature_noise: features: returned float64"),
        (link("feature_noise", std=1e308), IMAGES, "expected finite float32 features"),
        (link("label_noise", least=0.9), IMAGES, "least 0.9 is above rate 0.2"),
    ],
)
def test_refused_before_anything_is_done(skew, data, message):
    with pytest.raises(ScenarioError) as error:
        federation(link("feature_noise", std=0.0) if data is not TEXTS else skew, skew, data=data)
    assert message in str(error.value) and "data.skew[1]" in str(error.value)


def test_all_links_are_refused_at_once():
    with pytest.raises(ScenarioError) as error:
        federation(link("rotation"), link("feature_noise"), link("concept_shift"), data=TARGETS)
    assert [problem.where for problem in error.value.problems] == ["data.skew[0]", "data.skew[2]"]


def ones(clients, rng):
    return np.ones(clients)


def kept(x, a, rng):
    return x


@pytest.mark.parametrize(
    ("skew", "message"),
    [
        (Skew(lambda clients, rng: rng.random(3), kept), "draw: returned float64 (3,)"),
        (Skew(lambda clients, rng: np.full(clients, np.nan), kept), "a finite number for each"),
        (Skew(ones, lambda x, a, rng: x[1:]), "features: returned"),
        (Skew(ones, lambda x, a, rng: x / 0), "expected finite float32 features"),
        (Skew(ones, labels=lambda y, a, c, rng: y + c), "expected labels 0 to 4"),
    ],
)
def test_one_of_a_plug_in_keeps_its_contract(skew, message, own_kinds):
    @fedsim.skew
    def own():
        return skew

    with np.errstate(all="ignore"), pytest.raises(ScenarioError) as error:
        federation(link("own"))
    assert message in str(error.value)
