"""Clients onto lanes: the host side of the stacked axis.

    lane 0: [client 7 ........][client 31 ...][client 2 .]
    lane 1: [client 12 ...][client 90 ...][client 55 ....]

A lane trains a queue of clients one after another, as sequence packing does for language models, so that ragged clients
leave no padding behind. Which lane a client lands on changes no bit of its update.
"""

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from fedsim.fleet import Plan, RoundPlan

Packer = Callable[[np.ndarray, int], list[list[int]]]
PACKED = 100_000  # clients that are packed before the run, to see how many a crew gets


class Width(NamedTuple):
    """The two numbers that XLA's bits depend on; part of a result's identity."""

    lanes: int
    block: int


class Capacity(NamedTuple):
    """Static shapes of the program: maxima over the whole run, no part of a result's identity."""

    blocks: int
    steps: int  # T, lane steps of the longest block
    batch: int  # B
    members: int  # clients that ever take part
    crews: int  # C
    seats: int  # R, rows that a crew writes
    samples: int  # that one block trains on, at most


class Layout(NamedTuple):
    """One block of a round, laid out on lanes, as the host hands it over: few arrays, since each costs a transfer."""

    index: np.ndarray  # [T, C · L, B] rows of the training samples
    valid: np.ndarray  # [T, C · L] rows of a batch that count
    slot: np.ndarray  # [T + 1, C · L] slot trained at step t, `block` = idle
    until: np.ndarray  # [T] behind the next step at which a client ends, from t on
    ints: np.ndarray  # [6, block] start, id, steps, place, malicious, seat
    floats: np.ndarray  # [5, block] samples, weight, count, lr, lr_sum
    seats: int  # R


class Jobs(NamedTuple):
    """The same on the device; slots `[block]`."""

    index: Array
    valid: Array
    slot: Array
    until: Array
    start: Array  # which start model of the bank
    id: Array  # client
    steps: Array  # planned local steps
    place: Array  # row of the client's memory
    malicious: Array  # whether the attacker controls the client
    seat: Array  # row that a crew writes: crew · R + its own number; = slot where there is one crew
    samples: Array  # n_k
    weight: Array  # 0 = nothing arrives
    count: Array  # times drawn
    lr: Array  # client learning rate
    lr_sum: Array  # Σ of the learning rates of the planned steps


@jax.jit
def unpack(layout: Any) -> Jobs:
    """A `Layout` from the host to the device, in one call."""
    start, id, steps, place, malicious, seat = layout.ints
    return Jobs(
        layout.index,
        layout.valid,
        layout.slot,
        layout.until,
        start,
        id,
        steps,
        place,
        malicious > 0,
        seat,
        *layout.floats,
    )


def longest_first(steps: np.ndarray, lanes: int) -> list[list[int]]:
    """Slots per lane: longest processing time first, each on the least loaded lane (ties to the lowest)."""
    queues: list[list[int]] = [[] for _ in range(lanes)]
    heap = [(0, lane) for lane in range(lanes)]
    for slot in np.argsort(-steps, kind="stable"):
        if steps[slot] > 0:
            load, lane = heap[0]
            queues[lane].append(int(slot))
            heapq.heapreplace(heap, (load + int(steps[slot]), lane))
    return queues


def makespan(queues: list[list[int]], steps: np.ndarray) -> int:
    """Steps of the longest lane."""
    return max((int(steps[queue].sum()) for queue in queues if queue), default=0)


def capacity(plans: list[Plan], width: Width, pack: Packer = longest_first, crews: int = 1) -> Capacity:
    """The shapes that hold every block of every round of all plans.

    Looks at each round up to a thousand; later ones that need more make the engine grow (and recompile), no bit changes.
    """
    lanes, block = width
    blocks, longest, batch, seats, samples, packed = 1, 1, 1, 1, 1, 0

    def look(work: RoundPlan) -> None:
        nonlocal blocks, longest, seats, samples, packed
        blocks = max(blocks, -(-len(work.ids) // block))
        for first in range(0, len(work.ids), block):
            part = work.steps[first : first + block]
            longest = max(longest, bound(part, lanes * crews))
            samples = max(samples, int(work.samples[first : first + block].sum()))
            if crews > 1 and packed < PACKED:
                seats = max(seats, crowd(pack(part, lanes * crews), crews))
                packed += len(part)

    for plan in plans:
        batch = max(batch, int(plan.sizes.max(initial=1)) if plan.local.batch is None else plan.local.batch)
        plan.survey(look)
    members = max(max(len(plan.members) for plan in plans), 1)
    rows = block if crews == 1 else roomy(seats)
    return Capacity(blocks, roomy(longest), batch, members, crews, rows, roomy(samples + 1))


def bound(steps: np.ndarray, lanes: int) -> int:
    """Lane steps that longest-first never exceeds: when the lane that ends last took its last client, no lane had less to do."""
    longest = int(steps.max(initial=0))
    return (int(steps.sum()) - longest) // lanes + longest


def crowd(queues: list[list[int]], crews: int) -> int:
    """Clients of the busiest crew; queue j is with crew j mod C."""
    return max(sum(len(queue) for queue in queues[c::crews]) for c in range(crews))


def roomy(n: int) -> int:
    """`n` rounded up to three significant bits: few distinct shapes, so that compiled programs are found in the cache."""
    unit = 1 << max(n.bit_length() - 3, 0)
    return -(-n // unit) * unit


def lay_out(
    plan: Plan,
    work: RoundPlan,
    first: int,
    width: Width,
    room: Capacity,
    dtype: np.dtype,
    pack: Packer = longest_first,
) -> tuple[Layout, int]:
    """The round's slots `first … first + block` on the lanes of all crews -> (layout, lane steps to do).

    Where the clients' memory lies is not known yet: `placed` adds it.
    """
    (lanes, block), C = width, room.crews
    part = slice(first, first + block)
    ids, steps = work.ids[part], work.steps[part]
    queues = pack(steps, lanes * C)
    total = makespan(queues, steps)
    T = max(room.steps, roomy(total))
    R = room.seats if C == 1 else max(room.seats, roomy(crowd(queues, C)))
    index = np.zeros((T, C * lanes, room.batch), np.int32)
    valid = np.zeros((T, C * lanes), np.int32)
    slot = np.full((T + 1, C * lanes), block, np.int32)
    seat = np.arange(block) if C == 1 else _seats(queues, C, R, block)
    for number, queue in enumerate(queues):
        t, lane = 0, (number % C) * lanes + number // C  # neighbours in the queue are with different crews
        for k in queue:
            rows, count = plan.batches(work.round, int(ids[k]))
            end = t + len(rows)
            index[t:end, lane, : rows.shape[1]], valid[t:end, lane], slot[t:end, lane] = rows, count, k
            t = end
    ints, floats = np.zeros((6, block), np.int32), np.zeros((5, block), dtype)
    ints[5] = seat
    columns = (work.samples[part], work.weight[part], work.count[part], work.lr, work.lr_sum[part])
    for row, column in enumerate((0, ids, steps, 0, plan.malicious[ids])):
        ints[row, : len(ids)] = column
    for row, column in enumerate(columns):
        floats[row, : len(ids)] = column
    return Layout(index, valid, slot, ends_from(slot), ints, floats, R), total


def placed(layout: Layout, places: np.ndarray) -> Layout:
    """The layout with the rows of memory of its clients."""
    layout.ints[3, : len(places)] = places
    return layout


def ends_from(slot: np.ndarray) -> np.ndarray:
    """For every step: one behind the next step at which some lane's slot changes `[T]`."""
    T = len(slot) - 1
    ends = np.where((slot[:-1] != slot[1:]).any(1), np.arange(1, T + 1), T)
    return np.minimum.accumulate(ends[::-1])[::-1].astype(np.int32)


def compacted(
    layout: Layout, x: np.ndarray, y: np.ndarray, samples: int
) -> tuple[Layout, tuple[np.ndarray, np.ndarray]]:
    """The samples of one block alone, and the layout over them: for data that would not fit on the device.

    Args:
      layout: of the block; its index counts rows of x.
      x: all training features, in memory or mapped from a file.
      y: their labels.
      samples: room for so many, more if they need it.
    """
    used, index = np.unique(layout.index, return_inverse=True)
    rows = np.zeros(max(samples, roomy(len(used))), np.int64)
    rows[: len(used)] = used
    return layout._replace(index=index.reshape(layout.index.shape).astype(np.int32)), (x[rows], y[rows])


def _seats(queues: list[list[int]], C: int, R: int, block: int) -> np.ndarray:
    """Row of every slot in the stacks of all crews, one after another `[block]`; C · R: it has none."""
    seat = np.full(block, C * R)
    for c in range(C):
        slots = [k for queue in queues[c::C] for k in queue]
        seat[slots] = c * R + np.arange(len(slots))
    return seat
