"""Attacks that do not fit the data, and plug-ins that break their contract, are refused."""

import numpy as np
import pytest
from test_poisoned_samples import BASE, BYTES, FLOAT, FLOATS, ROWS, N, federation, link

import fedsim
from fedsim.compose.shapes import ContractError
from fedsim.data import Poison
from fedsim.errors import ScenarioError
from fedsim.fields.poisons.poisoning import poisoned, with_triggered

RNG = np.random.default_rng(0)
TEXTS = fedsim.Arrays(RNG.integers(0, 9, (60, 8)), RNG.integers(0, 9, (60, 8)))
WORDS = fedsim.Arrays(RNG.integers(0, 9, (60, 8)), np.arange(60) % 3, vocabulary=9)
TARGETS = fedsim.Arrays(RNG.normal(size=(60, 4)), RNG.normal(size=60))


REFUSED = {
    "numbers": (link("backdoor"), TARGETS, "changes classes, and these targets are numbers"),
    "a label per token": (link("label_random"), TEXTS, "the label of a sample, and here every tok"),
    "tokens": (link("edge_case"), WORDS, "reads features that are numbers, and these samples are"),
    "classes that there are not": (
        link("edge_case", source=6, target=7),
        FLOATS,
        "source 6 and target 7, and there are 5 cl",
    ),
    "half of a pair": (link("label_flip", source=1), FLOATS, "source and target are given toge"),
    "to itself": (link("label_flip", source=1, target=1), FLOATS, "source and target are both 1"),
    "a large pattern": (link("backdoor", size=8), FLOATS, "a pattern of 8 pixels, and samples ha"),
    "a cross of vectors": (link("backdoor", pattern="cross"), ROWS, "has a cross, which is for im"),
    "bars far apart": (link("distributed_backdoor", gap=3), FLOATS, "a pattern of 5 x 9 pixels"),
    "above bytes": (link("backdoor", value=1.5), BYTES, "from 0 to 1.5, and bytes are stored"),
    "above floats": (link("backdoor", value=1e39), FLOATS, "expected finite float32"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refusals_are_a_line(why):
    attack, data, message = REFUSED[why]
    base = {"kind": "supplied", "clients": 4, "test": 0.25}
    with np.errstate(over="ignore"), pytest.raises(ScenarioError) as error:
        federation(attack, data=data, malicious=0.5, base=base)
    assert message in str(error.value) and len(error.value.problems) == 1
    assert "data.attack[0]" in str(error.value)


def test_labels_that_move_on_are_not_attacked():
    with pytest.raises(ScenarioError, match="concept_shift with every"):
        federation(link("label_flip"), base={**BASE, "skew": [link("concept_shift", every=2)]})


SOUND = lambda x, y, classes, place, rng: (x, y)


@pytest.mark.parametrize(
    ("poison", "message"),
    [
        (Poison(lambda x, y, *rest: y), "samples: returned ndarray; expected (x, y)"),
        (Poison(lambda x, y, classes, *rest: (x, y + classes)), "expected 0 to 4"),
        (Poison(lambda x, y, *rest: (x[1:], y)), "samples: returned features"),
        (Poison(lambda x, y, *rest: (x / 0, y)), "expected finite float32"),
        (Poison(SOUND, target=1, trigger=lambda x: x[:, 0]), "trigger: returned features"),
        (Poison(SOUND, target=1, among=lambda x, y: y[1:] == 0), "among: returned bool"),
    ],
)
def test_one_of_a_plug_in_keeps_its_contract(poison, message):
    f, everybody = federation(), np.ones(N, bool)
    rng = lambda *key: np.random.default_rng(key)
    with np.errstate(all="ignore"), pytest.raises(ContractError) as error:
        made = poisoned(f, "own", poison, everybody, rng, FLOAT, f)
        with_triggered(made, poison, FLOAT)
    assert message in str(error.value)
