"""Plans give cohorts what they look at, and their factors become weights of a round."""

import itertools

import numpy as np
import pytest
from by_hand import machines_of
from numpy.testing import assert_allclose
from test_selection import BLOBS, made

from fedsim.assemble.federation import federations_of
from fedsim.fleet import Local, Plan, Planner
from fedsim.fleet.cohorts.importance import inclusion, scores
from fedsim.fleet.plan import Conditions
from fedsim.scenario import read

nan, inf = np.nan, np.inf


@pytest.fixture(scope="module")
def federation():
    return federations_of(read({"name": "s", "data": BLOBS}), None, np.dtype(np.float32))[0]


def plan_of(federation, cohort, rounds=9, **fleet) -> Plan:
    local = Local(batch=4, epochs=None, steps=1, shuffle=True, drop_last=False, lr=lambda r: 0.1)
    return Plan(federation, cohort, local, 3, rounds, Conditions(**machines_of(fleet)))


def test_the_least_drawn_clients_are_next(federation):
    """All clients are drawn before any is drawn again, whatever they report.

    Also when planned ahead, surveyed, or resumed from a commit.
    """
    plan = plan_of(federation, made("least_participated", size=4))
    planner, rounds = Planner(plan), [work.ids.tolist() for work in plan.survey.rounds()]
    assert not plan.pure and planner.ready(9)
    for i in (0, 3, 6):
        assert sorted(itertools.chain(*rounds[i : i + 3])) == list(range(12))
    assert rounds[0] != rounds[3]
    assert [planner.round(r).ids.tolist() for r in (1, 2, 3, 4)] == rounds[:4]
    for r in (1, 2):
        planner.complete(planner.round(r), {})
    again = Planner(plan)
    again.restore(planner.arrays(), 2)
    assert again.state["drawn"].sum() == 8 and again.state["last"].max() == 2
    assert [again.round(r).ids.tolist() for r in range(3, 10)] == rounds[2:]


def test_cohorts_get_seconds_and_classes_from_the_federation(federation):
    cohort = made("fedcs", seconds=4.0, candidates=12)
    speed = np.arange(1.0, 13.0)
    plan = plan_of(federation, cohort, speed=lambda clients, rng: speed)
    assert plan.pure and plan.round(1)[0].ids.tolist() == [0, 1, 2, 3] and plan.expected[0] == 4.0
    labels = plan_of(federation, made("round_robin_by_class", size=3)).population.labels
    assert labels.sum() == federation.sizes.sum()
    assert plan_of(federation, made("uniform", size=3)).population.seconds is None


def test_factors_become_weights_of_the_round(federation):
    plan = plan_of(federation, made("importance", size=4, by="loss", floor=0.6))
    assert plan.expected == (12.0, federation.sizes.sum())
    planner = Planner(plan)
    for losses in ([9.0, 1.0, nan, 1.0], [2.0, 2.0, 2.0, 2.0]):
        work, known = planner.round(planner.completed + 1), planner.feedback["loss"]
        chances = inclusion(scores(known, federation.sizes, 0.6), 4)
        assert_allclose(1 / work.count, chances[work.ids])
        planner.complete(work, {"loss": np.array(losses)})
        assert known[work.ids].tolist() == np.nan_to_num(losses, nan=inf).tolist()
    assert len({*work.count.tolist()}) > 1
