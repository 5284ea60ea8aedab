"""A block of a cohort laid out on lanes: as the host makes it, and as the device reads it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.engine.pack import (
    Capacity,
    Packer,
    Width,
    longest_first,
    makespan,
    max_clients_of_shard,
    rounded_up,
)
from fedsim.engine.slots import RunCohort, Slots, shapes_of_slots, slots_of
from fedsim.fleet import Plan

Batches = tuple[np.ndarray, np.ndarray]
"""Rows of the training samples `[steps, B]`, and how many of each batch count `[steps]`."""


class Queues(NamedTuple):
    """What every lane does in every step: which slot it trains, on which samples.

    The lanes are `S · L` of all shards, or `L` of one.
    """

    index: Any  # [T, S · L, B] rows of the training samples
    valid: Any  # [T, S · L] rows of a batch that count
    slot: Any  # [T + 1, S · L] slot trained at step t; the number of slots: idle
    until: Any  # [T] from step t on, one beyond the next step at which a client ends


class Layout(NamedTuple):
    """One block of a round on the lanes of all shards."""

    queues: Queues
    slots: Slots
    seats: int  # R, rows that a shard writes
    steps: int  # lane steps to do


def lay_out(
    cohorts: Sequence[RunCohort | None],
    first_slot: int,
    width: Width,
    capacity: Capacity,
    dtype: np.dtype,
    pack: Packer = longest_first,
) -> Layout:
    """Lay out a block of a round on the lanes of all shards.

    The block has the slots `first_slot … first_slot + block` of the cohort of every run. The runs
    have batches of equal width: none is padded for another one, which would change its bits.

    `Slots.memory_row` is still zero: memory is loaded later.

    Args:
      cohorts: the cohort of every run; None: it takes no part.
      first_slot: first slot in each cohort.
      capacity: static shapes, which grow where the block does not fit.
      pack: decides which lane each client lands on.
    """
    shards = capacity.shards
    slots = slots_of(
        cohorts,
        first_slot,
        block=width.block,
        dtype=dtype,
        models_per_run=capacity.models_per_run,
    )
    steps = np.asarray(slots.steps)  # [slots]

    # Which lane trains which clients, in which order; and on which samples, step by step.
    packed = pack(steps, width.lanes * shards)
    total = makespan(packed, steps)
    capacity = capacity._replace(steps=max(capacity.steps, rounded_up(total)))
    queues = _queues(packed, cohorts, slots, width=width, capacity=capacity)

    # A shard writes the rows of its clients to seats; one shard alone writes by slot.
    if shards == 1:
        seats = capacity.seats
        seat = np.arange(len(steps), dtype=np.int32)
    else:
        seats = max(capacity.seats, rounded_up(max_clients_of_shard(packed, shards)))
        seat = _seats(packed, shards, seats, len(steps))
    return Layout(queues=queues, slots=slots._replace(seat=seat), seats=seats, steps=total)


def _queues(
    packed: list[list[int]],
    cohorts: Sequence[RunCohort | None],
    slots: Slots,
    width: Width,
    capacity: Capacity,
) -> Queues:
    """Return what every lane does in every step."""
    T = capacity.steps
    (B,) = {run_cohort.plan.batch_rows for run_cohort in cohorts if run_cohort is not None}
    lanes = width.lanes * capacity.shards
    idle = len(slots.weight)
    index = np.zeros((T, lanes, B), np.int32)
    valid = np.zeros((T, lanes), np.int32)
    slot = np.full((T + 1, lanes), idle, np.int32)

    # NumPy's scalars are slow: read the columns once.
    ids = np.asarray(slots.work.id).tolist()
    steps = slots.steps.tolist()
    draws = slots.draw.tolist()

    # Runs that are compared have many batches in common.
    batches: dict[tuple, Batches] = {}
    for number, queue in enumerate(packed):
        # Neighbouring queues belong to different shards.
        shard = number % capacity.shards
        lane = shard * width.lanes + number // capacity.shards
        begin = 0
        for k in queue:
            run_cohort = cohorts[k // width.block]
            assert run_cohort is not None
            job = (*run_cohort.plan.work.key, draws[k], ids[k])
            if job not in batches:
                batches[job] = run_cohort.batches(draws[k], ids[k])
            rows, counts = batches[job]

            planned = steps[k]  # with partial work fewer than there are batches
            end = begin + planned
            index[begin:end, lane, : rows.shape[1]] = rows[:planned]
            valid[begin:end, lane] = counts[:planned]
            slot[begin:end, lane] = k
            begin = end
    return Queues(index=index, valid=valid, slot=slot, until=ends_from(slot))


def shapes_of_layout(
    width: Width, capacity: Capacity, dtype: np.dtype, plan: Plan
) -> tuple[Queues, Slots]:
    """Return the shapes of what one shard reads of any `lay_out` within `capacity`."""
    shape = jax.ShapeDtypeStruct
    queues = Queues(
        index=shape((capacity.steps, width.lanes, plan.batch_rows), np.int32),
        valid=shape((capacity.steps, width.lanes), np.int32),
        slot=shape((capacity.steps + 1, width.lanes), np.int32),
        until=shape((capacity.steps,), np.int32),
    )
    return queues, shapes_of_slots(capacity.runs * width.block, dtype, plan)


def shard_of(queues: Queues, shard: int, shards: int) -> Queues:
    """Return the lanes of one shard."""
    width = queues.slot.shape[1] // shards
    lanes = slice(shard * width, (shard + 1) * width)
    slot = queues.slot[:, lanes]
    return Queues(
        index=queues.index[:, lanes],
        valid=queues.valid[:, lanes],
        slot=slot,
        until=ends_from(slot),
    )


def ends_from(slot: np.ndarray) -> np.ndarray:
    """Return `Queues.until` `[T]` for the slots of some lanes `[T + 1, lanes]`."""
    T = len(slot) - 1
    changes = (slot[:-1] != slot[1:]).any(axis=1)  # [T] whether a client ends with step t
    ends = np.where(changes, np.arange(1, T + 1), T)

    # The next end from t on: the minimum over the steps that follow.
    return np.minimum.accumulate(ends[::-1])[::-1].astype(np.int32)


def compacted(
    index: np.ndarray, x: np.ndarray, y: np.ndarray, samples: int, readers: Sequence[slice]
) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Cut one block's samples from data that would not fit on the device.

    Args:
      index: the index of the block's queues, rows of x.
      samples: rows to reserve; more if a reader needs them.
      readers: lanes that read the same samples; lanes of other processes are left as they are.

    Returns:
      The index over the cut samples, and (x, y) for every reader.
    """
    compact = index.copy()
    samples_of_readers = []
    for lanes in readers:
        used, position = np.unique(compact[:, lanes], return_inverse=True)
        compact[:, lanes] = position.reshape(compact[:, lanes].shape)

        rows = np.zeros(max(samples, rounded_up(len(used))), np.int64)
        rows[: len(used)] = used
        samples_of_readers.append((x[rows], y[rows]))
    return compact, samples_of_readers


def _seats(queues: list[list[int]], shards: int, R: int, slots: int) -> np.ndarray:
    """Return the row of every slot in the stacks of all shards, one after another `[slots]`.

    A slot that is not trained has the seat S · R.
    """
    seat = np.full(slots, shards * R, np.int32)
    for shard in range(shards):
        trained = [k for queue in queues[shard::shards] for k in queue]
        seat[trained] = shard * R + np.arange(len(trained))
    return seat
