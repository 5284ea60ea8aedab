"""Plans by hand: who is drawn, how much each trains, on which samples and in which order."""

import numpy as np
import pytest

from fedsim.assemble.federation import federations_of
from fedsim.engine.meters.batches import CutBatches
from fedsim.fleet import Adversary, selection, survey
from fedsim.fleet.local import planned_steps
from fedsim.fleet.plan import Conditions, Local, Plan
from fedsim.fleet.round_plan import UncountedClients
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario import read

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def local(**changes) -> Local:
    return Local(
        **{
            "batch": 4,
            "epochs": 2,
            "steps": None,
            "shuffle": True,
            "drop_last": False,
            "lr": lambda r: 0.5 / r,
            **changes,
        }
    )


@pytest.fixture(scope="module")
def federation():
    data = {
        "kind": "gaussian_blobs",
        "samples": 130,
        "clients": 6,
        "partition": {"kind": "quantity", "distribution": "lognormal"},
    }
    return federations_of(read({"name": "s", "data": data}), None, np.dtype(np.float32))[0]


def plan(federation, cohort=None, rounds=5, labelled=False, **changes) -> Plan:
    return Plan(
        federation,
        cohort or selection.uniform(3),
        local(**changes),
        7,
        rounds,
        Conditions(adversary=Adversary(ids=(1, 3)), labelled=labelled),
    )


def test_a_round_has_the_ids_steps_and_weights_worked_out_by_hand(federation):
    made = plan(federation, labelled=True)
    work, sizes = made.round(2)[0], federation.sizes
    drawn = np.sort(
        generator(7, Stream.COHORT, 2).choice(np.flatnonzero(sizes > 0), 3, replace=False)
    )
    assert (
        work.ids.tolist() == drawn.tolist() and work.count.tolist() == [1, 1, 1] and work.round == 2
    )
    steps = 2 * -(-sizes[drawn] // 4)
    assert (
        work.steps.tolist() == steps.tolist()
        and work.samples.tolist() == work.weight.tolist() == sizes[drawn].tolist()
    )
    assert (
        work.lr == 0.25
        and work.lr_sum.tolist() == (0.25 * steps).tolist()
        and work.seconds == steps.max()
    )
    assert np.array_equal(made.labels, federation.label_counts()) and plan(
        federation
    ).labels.shape == (6, 0)
    assert np.flatnonzero(made.malicious).tolist() == [1, 3]


def test_a_client_drawn_twice_counts_twice_and_one_without_steps_weighs_nothing(federation):
    made = plan(
        federation, selection.listed([[2, 0, 2], [1]]), epochs=None, steps=[3, 1, 0, 2, 2, 2]
    )
    work = made.round(1)[0]
    assert (work.ids.tolist(), work.count.tolist(), work.steps.tolist()) == ([0, 2], [1, 2], [3, 0])
    assert work.weight.tolist() == [federation.sizes[0], 0] and work.seconds == 3.0
    assert made.round(2)[0].ids.tolist() == [1] and made.round(3)[0].ids.tolist() == [0, 2]
    assert made.survey.members.tolist() == [0, 1, 2]
    none = plan(
        federation, selection.Cohort(lambda population, round, rng: population.ids[:0], lambda N: 0)
    )
    assert none.round(1)[0].seconds == 0.0 and len(none.survey.members) == 0


def test_members_are_those_of_the_surveyed_rounds_or_everybody(federation, monkeypatch):
    monkeypatch.setattr(survey, "MAX_SURVEYED_ROUNDS", 2)
    cohort = selection.listed([[0], [1], [2]])
    assert plan(federation, cohort, rounds=2).survey.members.tolist() == [0, 1]
    assert plan(federation, cohort, rounds=3).survey.members.tolist() == [0, 1, 2, 3, 4, 5]
    assert (
        len(list(plan(federation, cohort, rounds=3).survey.rounds())) == 2
        and len(list(plan(federation, cohort, rounds=1).survey.rounds())) == 1
    )


def test_learning_rates_are_summed_over_steps(federation):
    made = plan(
        federation,
        selection.all(),
        epochs=None,
        steps=[0, 1, 2, 3, 4, 5],
        rate=lambda t: 1.0 / (t + 1),
    )
    assert made.round(1)[0].lr_sum == pytest.approx([0, 1, 1.5, 11 / 6, 25 / 12, 137 / 60])


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_are_the_samples_in_the_order_of_the_stream(federation, drop_last):
    made = plan(federation, drop_last=drop_last)
    for client in range(federation.N):
        rows = federation.holders.of(client)
        n = len(rows)
        per_epoch = max(n // 4, 1) if drop_last else -(-n // 4)
        got, valid = made.work.batches(3, client)
        order = rows[None].repeat(2, 0)
        if n > 4:
            order = generator(7, Stream.BATCHES, 3, client).permuted(order, axis=1)
        wanted = [epoch[i : i + 4] for epoch in order for i in range(0, 4 * per_epoch, 4)]
        assert (
            got.shape == (2 * per_epoch, 4)
            and got.dtype == np.int32
            and len(wanted) == made.steps[client] == len(got)
        )
        for step, samples in enumerate(wanted):
            assert (
                valid[step] == len(samples)
                and got[step, : valid[step]].tolist() == list(samples)
                and not got[step, valid[step] :].any()
            )
        passed, counted = made.work.single_pass(client)
        assert counted.sum() == min(n, 4 * per_epoch) and passed[0, : counted[0]].tolist() == list(
            rows[: counted[0]]
        )


def test_full_batches_and_fixed_steps(federation):
    made = plan(federation, batch=None, epochs=None, steps=3)
    rows, valid = made.work.batches(1, 2)
    held = federation.holders.of(2)
    assert rows.tolist() == [held.tolist()] * 3 and valid.tolist() == [len(held)] * 3
    unshuffled = plan(federation, shuffle=False).work.batches(1, 2)[0]
    assert unshuffled[0].tolist() == held[:4].tolist()
    work = made.probe_plan(made.round(1)[0])
    assert work.steps.tolist() == [1, 1, 1] and work.lr_sum.tolist() == [0, 0, 0]
    assert (
        plan(federation).probe_plan(plan(federation).round(1)[0]).steps.tolist()
        == (-(-plan(federation).round(1)[0].samples // 4)).tolist()
    )


def test_full_batches_stay_in_order_and_clients_without_steps_are_not_probed(federation):
    size = int(federation.sizes[2])
    rows, valid = plan(federation, batch=size).work.batches(1, 2)
    held = federation.holders.of(2)
    assert rows.tolist() == [held.tolist()] * 2 and valid.tolist() == [size] * 2
    made = plan(federation, selection.all(), epochs=None, steps=[0, 1, 2, 3, 4, 5])
    assert (made.probe_plan(made.round(1)[0]).steps > 0).tolist() == [
        False,
        True,
        True,
        True,
        True,
        True,
    ]
    assert Plan(federation, selection.all(), local(), 7, 5).labels.shape == (6, 0)
    assert made.round(3)[0].age.tolist() == [0] * 6
    assert made.begin() == {}


def test_expected_clients_and_samples_of_a_round(federation):
    sizes = federation.sizes[federation.sizes > 0]
    assert plan(federation).expected == pytest.approx((3.0, 3 / len(sizes) * sizes.sum()))
    assert plan(federation, selection.weighted(2)).expected == pytest.approx(
        (2.0, 2 * (sizes**2).sum() / sizes.sum())
    )
    unknown = selection.Cohort(lambda population, round, rng: population.ids, lambda N: N)
    assert plan(federation, unknown).expected == (0.0, 0.0) and plan(federation, unknown).pure
    assert not plan(federation, selection.power_of_choice(2, 3)).pure


def test_steps_and_shares_by_hand():
    sizes = np.array([0, 1, 4, 5, 9])
    assert planned_steps(sizes, local()).tolist() == [0, 2, 2, 4, 6]
    assert planned_steps(sizes, local(drop_last=True)).tolist() == [0, 2, 2, 2, 4]
    assert planned_steps(sizes, local(batch=None)).tolist() == [0, 2, 2, 2, 2]
    assert planned_steps(sizes, local(epochs=None, steps=5)).tolist() == [0, 5, 5, 5, 5]


def test_plans_of_equal_order_hand_out_equal_batches(federation):
    assert (
        plan(federation).work.key
        == plan(federation, lr=lambda r: 9.0).work.key
        == plan(federation, selection.all()).work.key
    )
    others = [{"batch": 5}, {"shuffle": False}, {"drop_last": True}, {"epochs": 3}]
    assert len({plan(federation, **changes).work.key for changes in [{}, *others]}) == 5


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


@pytest.mark.parametrize("cap", [None, 1, 1000])
def test_batches_that_are_cut_are_counted(federation, cap):
    made = plan(federation, poisson=True, cap=cap)
    cut = CutBatches(made).cut_batches(made.round(1)[0])
    assert cut > 0 if cap == 1 else cut == 0
