"""Local work by hand: how many steps a client takes, on which samples and in which order."""

import numpy as np
import pytest
from test_plan_by_hand import local, plan, unequal_clients

from fedsim.engine.meters.batches import CutBatches
from fedsim.fleet import selection
from fedsim.fleet.local import planned_steps, poisson_batches
from fedsim.fleet.streams import Stream, generator
from fedsim.types import LocalPhase


@pytest.fixture(scope="module")
def federation():
    return unequal_clients()


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
