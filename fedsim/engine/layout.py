"""A block of a cohort laid out on lanes: as the host hands it over, and as the device reads it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.engine.pack import Capacity, Packer, Width, crowd, longest_first, makespan, roomy
from fedsim.engine.slots import RunCohort, Slots, shapes_of_slots, slots_of
from fedsim.fleet import Plan


class Queues(NamedTuple):
    """What every lane does in every step: which slot it trains, on which samples. `S · L` lanes of
    all shards, or `L` of one.
    """

    index: Any  # [T, S · L, B] rows of the training samples
    valid: Any  # [T, S · L] rows of a batch that count
    slot: Any  # [T + 1, S · L] slot trained at step t, one beyond the last = idle
    until: Any  # [T] one beyond the next step at which a client ends, from t on


class Layout(NamedTuple):
    """One block of a round on the lanes of all shards."""

    queues: Queues
    slots: Slots
    seats: int  # R, rows that a shard writes
    steps: int  # lane steps to do


def lay_out(
    parts: Sequence[RunCohort | None],
    first: int,
    width: Width,
    room: Capacity,
    dtype: np.dtype,
    pack: Packer = longest_first,
    versions: int = 1,
) -> Layout:
    """The slots `first … first + block` of a round of every run on the lanes of all shards.

    Where the clients' memory lies is not known yet: `placed` adds it. The bank holds `versions`
    start models of every run.
    """
    (lanes, block), shards = width, room.shards
    slots = slots_of(parts, first, block, dtype, versions)
    ids, draws, steps = np.asarray(slots.work.id), slots.draw, np.asarray(slots.work.steps)
    queues = pack(steps, lanes * shards)
    total = makespan(queues, steps)
    T = max(room.steps, roomy(total))
    R = room.seats if shards == 1 else max(room.seats, roomy(crowd(queues, shards)))
    index = np.zeros((T, shards * lanes, room.batch), np.int32)
    valid = np.zeros((T, shards * lanes), np.int32)
    slot = np.full((T + 1, shards * lanes), len(steps), np.int32)
    # batches: runs that are compared have many in common
    known: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}
    for number, queue in enumerate(queues):
        # neighbours in the queue are with different shards
        lane = (number % shards) * lanes + number // shards
        t = 0
        for k in queue:
            part, client, draw = parts[k // block], int(ids[k]), int(draws[k])
            assert part is not None
            job = (*part.plan.order, draw, client)
            rows, count = known.get(job) or known.setdefault(job, part.batches(draw, client))
            planned = int(steps[k])  # of partial work fewer than there are batches
            end = t + planned
            index[t:end, lane, : rows.shape[1]] = rows[:planned]
            valid[t:end, lane] = count[:planned]
            slot[t:end, lane] = k
            t = end
    seat = (
        np.arange(len(steps), dtype=np.int32)
        if shards == 1
        else _seats(queues, shards, R, len(steps))
    )
    return Layout(Queues(index, valid, slot, ends_from(slot)), slots._replace(seat=seat), R, total)


def laid_out(width: Width, room: Capacity, dtype: np.dtype, plan: Plan) -> tuple[Queues, Slots]:
    """The shapes of what one of the shards reads of any `lay_out` of such a plan that stays within
    `room`.
    """
    shape = jax.ShapeDtypeStruct
    queues = Queues(
        index=shape((room.steps, width.lanes, room.batch), np.int32),
        valid=shape((room.steps, width.lanes), np.int32),
        slot=shape((room.steps + 1, width.lanes), np.int32),
        until=shape((room.steps,), np.int32),
    )
    return queues, shapes_of_slots(room.runs * width.block, dtype, plan)


def shard_of(queues: Queues, shard: int, shards: int) -> Queues:
    """The lanes of one shard."""
    wide = queues.slot.shape[1] // shards
    lanes = slice(shard * wide, (shard + 1) * wide)
    slot = queues.slot[:, lanes]
    return Queues(queues.index[:, lanes], queues.valid[:, lanes], slot, ends_from(slot))


def ends_from(slot: np.ndarray) -> np.ndarray:
    """For every step: one behind the next step at which some lane's slot changes `[T]`."""
    T = len(slot) - 1
    ends = np.where((slot[:-1] != slot[1:]).any(1), np.arange(1, T + 1), T)
    return np.minimum.accumulate(ends[::-1])[::-1].astype(np.int32)


def compacted(
    index: np.ndarray, x: np.ndarray, y: np.ndarray, samples: int, readers: Sequence[slice]
) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """The samples of one block alone, and the index over them: for data that would not fit on the
    device.

    Args:
      index: of the block's queues; it counts rows of x.
      x: all training features, in memory or mapped from a file.
      y: their labels.
      samples: room for so many, more if they need it.
      readers: lanes that read samples of their own; those of other processes are left as they are.
    """
    whole, parts = index.copy(), []
    for lanes in readers:
        used, own = np.unique(whole[:, lanes], return_inverse=True)
        rows = np.zeros(max(samples, roomy(len(used))), np.int64)
        rows[: len(used)] = used
        whole[:, lanes] = own.reshape(whole[:, lanes].shape)
        parts.append((x[rows], y[rows]))
    return whole, parts


def _seats(queues: list[list[int]], shards: int, R: int, slots: int) -> np.ndarray:
    """Row of every slot in the stacks of all shards, one after another `[slots]`; S · R: it has
    none.
    """
    seat = np.full(slots, shards * R, np.int32)
    for shard in range(shards):
        trained = [k for queue in queues[shard::shards] for k in queue]
        seat[trained] = shard * R + np.arange(len(trained))
    return seat
