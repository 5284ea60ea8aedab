"""Who the attacker controls: shares, numbers and ids, for a run or anew in every round."""

import numpy as np
import pytest
from building import built

import fedsim
from fedsim.assemble.forecast import notes
from fedsim.fleet import Adversary
from fedsim.fleet.streams import Stream, generator

SCENARIO = {
    "name": "adversary",
    "rounds": 6,
    "data": {"kind": "digits", "clients": 10},
    "cohort": {"kind": "uniform", "size": 6},
    "client": {"lr": 0.1, "batch": "full", "epochs": 1},
    "wire": [{"kind": "constant", "value": 0.0}],
    "numerics": {"lanes": 2},
}


def test_those_of_a_run_are_the_first_of_a_permutation_and_those_of_a_round_change():
    fixed, anew = Adversary(count=3), Adversary(count=3, redrawn=True)
    want = np.sort(generator(5, Stream.MALICIOUS).permutation(10)[:3])
    assert all((np.flatnonzero(fixed.mask(10, 5, r)) == want).all() for r in (1, 2, 9))
    masks = [anew.mask(10, 5, r) for r in range(1, 400)]
    assert all(mask.sum() == 3 for mask in masks) and (anew.mask(10, 5, 7) == masks[6]).all()
    assert np.abs(np.mean(masks, 0) - 0.3).max() < 0.1
    assert Adversary(ids=(4, 2)).mask(5, 0, 3).tolist() == [False, False, True, False, True]
    assert anew.mask(3, 0, 1).all() and not Adversary().mask(4, 0, 1).any()


@pytest.mark.parametrize(
    ("form", "line"), [({}, "found none"), ({"count": 2, "per": "epoch"}, "per")]
)
def test_refusals_are_a_line(form, line):
    with pytest.raises(fedsim.ScenarioError, match=line):
        fedsim.run({**SCENARIO, "fleet": {"malicious": form}})


@pytest.mark.parametrize(("share", "count"), [(0.2, 2), (0.06, 1), (0.25, 2), (0.35, 4)])
def test_a_share_is_the_nearest_number_of_clients_and_check_says_which(share, count):
    said = [f"fleet.malicious: {share:g} of 10 clients is {count}"] if share * 10 != count else []
    experiment = built({**SCENARIO, "fleet": {"malicious": share}})
    (plan,) = experiment.plans.values()
    assert plan.malicious.sum() == count
    assert [note for note in notes(experiment) if "malicious:" in note] == said


def test_a_run_says_which_number_a_share_is():
    with pytest.warns(UserWarning, match=r"fleet.malicious: 0.06 of 10 clients is 1$"):
        fedsim.run({**SCENARIO, "rounds": 0, "fleet": {"malicious": 0.06}})
