"""Plans by hand: who is drawn, who counts, what they weigh and what is expected of a round."""

import numpy as np
import pytest

from fedsim.assemble.federation import federations_of
from fedsim.fleet import Adversary, selection, survey
from fedsim.fleet.plan import Conditions, Local, Plan
from fedsim.fleet.round_plan import UncountedClients
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario import read


def local(**changes) -> Local:
    plain = {"batch": 4, "epochs": 2, "steps": None, "shuffle": True, "drop_last": False}
    return Local(**{**plain, "lr": lambda r: 0.5 / r, **changes})


def unequal_clients():
    """A federation of six clients that have unequal numbers of samples."""
    partition = {"kind": "quantity", "distribution": "lognormal"}
    data = {"kind": "gaussian_blobs", "samples": 130, "clients": 6, "partition": partition}
    return federations_of(read({"name": "s", "data": data}), None, np.dtype(np.float32))[0]


@pytest.fixture(scope="module")
def federation():
    return unequal_clients()


def plan(federation, cohort=None, rounds=5, labelled=False, absent=None, **changes) -> Plan:
    conditions = Conditions(adversary=Adversary(ids=(1, 3)), labelled=labelled, absent=absent)
    cohort = cohort or selection.uniform(3)
    return Plan(federation, cohort, local(**changes), 7, rounds, conditions)


def test_a_round_has_the_ids_steps_and_weights_worked_out_by_hand(federation):
    made, sizes = plan(federation, labelled=True), federation.sizes
    rng = generator(7, Stream.COHORT, 2)
    drawn = np.sort(rng.choice(np.flatnonzero(sizes > 0), 3, replace=False))
    steps = 2 * -(-sizes[drawn] // 4)

    work = made.round(2)[0]
    assert (work.round, work.lr, work.seconds) == (2, 0.25, steps.max())
    assert (work.ids.tolist(), work.count.tolist()) == (drawn.tolist(), [1, 1, 1])
    assert work.uncounted is None
    assert work.samples.tolist() == work.weight.tolist() == sizes[drawn].tolist()
    assert work.steps.tolist() == steps.tolist()
    assert work.lr_sum.tolist() == (0.25 * steps).tolist()
    assert np.flatnonzero(made.malicious).tolist() == [1, 3]
    assert np.array_equal(made.labels, federation.label_counts())
    assert Plan(federation, selection.uniform(3), local(), 7, 5).labels.shape == (6, 0)
    assert (made.cost.epochs, made.cost.down, made.cost.up) == (2, 0, 0)
    # The largest rate of any round.
    assert made.tuning_plan(3).local.lr(9) == 0.5
    assert plan(federation, lr=lambda r: r / 2).tuning_plan(3).local.lr(1) == 2.5
    work = made.work_of(np.array([1, 2]), 3)
    assert (work.start.tolist(), work.lr, work.seconds) == ([2, 2], 0.5, 0.0)


def test_a_client_drawn_twice_counts_twice_and_one_without_steps_weighs_nothing(federation):
    cohort = selection.listed([[2, 0, 2], [1]])
    made = plan(federation, cohort, epochs=None, steps=[3, 1, 0, 2, 2, 2])
    work = made.round(1)[0]
    assert (work.ids.tolist(), work.count.tolist(), work.steps.tolist()) == ([0, 2], [1, 2], [3, 0])
    assert work.weight.tolist() == [federation.sizes[0], 0] and work.seconds == 3.0
    of_one_step = made.round(2)[0]
    assert (of_one_step.ids.tolist(), of_one_step.weight.tolist()) == ([1], [federation.sizes[1]])
    assert made.round(3)[0].ids.tolist() == [0, 2]
    assert made.survey.members.tolist() == [0, 1, 2]

    nobody = selection.Cohort(lambda population, round, rng: population.ids[:0], lambda N: 0)
    none = plan(federation, nobody)
    assert none.round(1)[0].seconds == 0.0 and len(none.survey.members) == 0


def test_absent_clients_have_no_samples_and_are_never_drawn(federation):
    made = plan(federation, selection.all(), absent=np.arange(6) == 2)
    assert made.sizes.tolist() == np.where(np.arange(6) == 2, 0, federation.sizes).tolist()
    assert 2 not in made.round(1)[0].ids and 2 in plan(federation, selection.all()).round(1)[0].ids


def test_members_are_those_of_the_surveyed_rounds_or_everybody(federation, monkeypatch):
    monkeypatch.setattr(survey, "MAX_SURVEYED_ROUNDS", 2)
    cohort = selection.listed([[0], [1], [2]])
    assert plan(federation, cohort, rounds=2).survey.members.tolist() == [0, 1]
    assert plan(federation, cohort, rounds=3).survey.members.tolist() == [0, 1, 2, 3, 4, 5]
    surveyed = [len(list(plan(federation, cohort, rounds=r).survey.rounds())) for r in (1, 3)]
    assert surveyed == [1, 2]


def test_a_probe_is_a_pass_of_every_client_that_trains(federation):
    full = plan(federation, batch=None, epochs=None, steps=3)
    work = full.probe_plan(full.round(1)[0])
    assert work.steps.tolist() == [1, 1, 1] and work.lr_sum.tolist() == [0, 0, 0]
    of_four = plan(federation)
    work = of_four.round(1)[0]
    assert of_four.probe_plan(work).steps.tolist() == (-(-work.samples // 4)).tolist()

    made = plan(federation, selection.all(), epochs=None, steps=[0, 1, 2, 3, 4, 5])
    assert (made.probe_plan(made.round(1)[0]).steps > 0).tolist() == [False] + [True] * 5
    assert made.round(3)[0].age.tolist() == [0] * 6
    assert made.begin() == {}


def test_expected_clients_and_samples_of_a_round(federation):
    sizes = federation.sizes[federation.sizes > 0]
    made = plan(federation)
    assert made.expected == pytest.approx((3.0, 3 / len(sizes) * sizes.sum()))
    assert made.shares.tolist() == np.where(federation.sizes > 0, 3 / len(sizes), 0).tolist()
    assert plan(federation, selection.weighted(2)).expected == pytest.approx(
        (2.0, 2 * (sizes**2).sum() / sizes.sum())
    )
    unknown = selection.Cohort(lambda population, round, rng: population.ids, lambda N: N)
    assert plan(federation, unknown).expected == (0.0, 0.0) and plan(federation, unknown).pure
    assert not plan(federation, selection.power_of_choice(2, 3)).pure


def test_who_gets_the_model_and_who_sends_beyond_those_that_count(federation):
    work = plan(federation).round(1)[0]
    counted = work.ids.tolist()
    assert work.senders.tolist() == work.receivers.tolist() == counted

    nobody = np.zeros(3, bool)
    others = UncountedClients(
        ids=np.array([10, 11, 12]),
        late=nobody,
        left=nobody,
        steps=np.zeros(3, int),
        reached=np.array([True, True, False]),
        sent=np.array([False, True, False]),
    )
    work = work._replace(uncounted=others)
    assert work.receivers.tolist() == [*counted, 10, 11]
    assert work.senders.tolist() == [*counted, 11]
