"""Plans by hand: who is drawn, how much each trains, on which samples and in which order."""

import numpy as np
import pytest

from fedsim.assemble.federation import federations_of
from fedsim.engine.meters.batches import CutBatches
from fedsim.fleet import Adversary, selection, survey
from fedsim.fleet.local import planned_steps, poisson_batches
from fedsim.fleet.plan import Conditions, Local, Plan
from fedsim.fleet.round_plan import UncountedClients
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario import read
from fedsim.types import LocalPhase


def local(**changes) -> Local:
    plain = {"batch": 4, "epochs": 2, "steps": None, "shuffle": True, "drop_last": False}
    return Local(**{**plain, "lr": lambda r: 0.5 / r, **changes})


@pytest.fixture(scope="module")
def federation():
    partition = {"kind": "quantity", "distribution": "lognormal"}
    data = {"kind": "gaussian_blobs", "samples": 130, "clients": 6, "partition": partition}
    return federations_of(read({"name": "s", "data": data}), None, np.dtype(np.float32))[0]


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


def test_learning_rates_are_summed_over_steps(federation):
    steps = [0, 1, 2, 3, 4, 5]
    made = plan(federation, selection.all(), epochs=None, steps=steps, rate=lambda t: 1 / (t + 1))
    assert made.round(1)[0].lr_sum == pytest.approx([0, 1, 1.5, 11 / 6, 25 / 12, 137 / 60])


@pytest.mark.parametrize("held_out", [0.0, 0.25])
def test_phases_have_their_own_steps_and_samples(federation, held_out):
    """Two steps, or two passes over what is held out; then three batches, two gradients on each."""
    body = LocalPhase("body", substeps=2, same_batch=True)
    phases = (LocalPhase("first", steps=2, held_out=held_out), body)
    rate = lambda t: 1 / (t + 1)
    made = plan(federation, epochs=None, steps=3, phases=phases, rate=rate)
    ids = np.flatnonzero(federation.sizes)
    held = np.maximum(federation.sizes[ids] // 4, 1) if held_out else np.zeros(len(ids), int)
    before = 2 * -(-held // 4) if held_out else np.full(len(ids), 2)
    assert made.steps[ids].tolist() == (before + 3 * 2).tolist()
    for taken, asked in ((0, 0), (1, 0), (4, 2), (6, 3)):
        assert made.work.asked_steps(ids, before + taken).tolist() == [asked] * len(ids)
    sums = [sum(map(rate, range(first, first + 6))) / 2 for first in before.tolist()]
    assert made.work.lr_sum(ids, made.steps[ids], 9.0) == pytest.approx(sums)
    for client, first, n in zip(ids.tolist(), before.tolist(), held.tolist(), strict=True):
        batches = [rows[:size] for rows, size in zip(*made.work.batches(1, client), strict=True)]
        dealt, others = (set(np.concatenate(part)) for part in (batches[:first], batches[first:]))
        if held_out:
            assert len(dealt) == n and not dealt & others
        else:
            assert dealt & others
        assert dealt | others <= set(federation.holders.of(client))
        twice = zip(batches[first::2], batches[first + 1 :: 2], strict=True)
        assert all(np.array_equal(one, again) for one, again in twice)


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
        assert got.shape == (2 * per_epoch, 4) and got.dtype == np.int32
        assert len(wanted) == made.steps[client] == len(got)
        for rows_of_step, count, samples in zip(got, valid, wanted, strict=True):
            assert count == len(samples) and rows_of_step[:count].tolist() == list(samples)
            assert not rows_of_step[count:].any()
        passed, counted = made.work.single_pass(client)
        assert counted.sum() == min(n, 4 * per_epoch)
        assert passed[0, : counted[0]].tolist() == rows[: counted[0]].tolist()


def test_full_batches_stay_in_order_and_steps_may_be_fixed(federation):
    held = federation.holders.of(2).tolist()
    for changes in ({"batch": None, "epochs": None, "steps": 2}, {"batch": len(held)}):
        rows, valid = plan(federation, **changes).work.batches(1, 2)
        assert rows.tolist() == [held] * 2 and valid.tolist() == [len(held)] * 2
    unshuffled = plan(federation, shuffle=False).work.batches(1, 2)[0]
    assert unshuffled[0].tolist() == held[:4]


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


def test_steps_and_shares_by_hand():
    sizes = np.array([0, 1, 4, 5, 9])
    assert planned_steps(sizes, local()).tolist() == [0, 2, 2, 4, 6]
    assert planned_steps(sizes, local(drop_last=True)).tolist() == [0, 2, 2, 2, 4]
    assert planned_steps(sizes, local(batch=None)).tolist() == [0, 2, 2, 2, 2]
    assert planned_steps(sizes, local(epochs=None, steps=5)).tolist() == [0, 5, 5, 5, 5]


def test_plans_of_equal_order_hand_out_equal_batches(federation):
    key = plan(federation).work.key
    assert key == plan(federation, lr=lambda r: 9.0).work.key
    assert key == plan(federation, selection.all()).work.key
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


def test_of_the_steps_that_clients_take_the_batches_that_were_drawn_larger_count_as_cut(federation):
    poisson = {"poisson": True, "epochs": None, "steps": 6}
    made = plan(federation, **poisson, cap=2)
    work = made.round(1)[0]._replace(steps=np.array([6, 3, 0]))
    cut = 0
    for client, steps in zip(work.ids.tolist(), work.steps, strict=True):
        rng = generator(7, Stream.BATCHES, 1, client)
        rows = federation.holders.of(client)
        _, sizes = poisson_batches(rows, 6, local(**poisson, cap=100), rng)
        cut += int((sizes[:steps] > 2).sum())
        assert made.work.batches(1, client)[1].tolist() == np.minimum(sizes, 2).tolist()
    assert CutBatches(made).cut_batches(work) == cut > 0
    for cap in (None, 1000):
        assert CutBatches(plan(federation, **poisson, cap=cap)).cut_batches(work) == 0
