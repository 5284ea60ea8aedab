"""Clients onto lanes: the host side of the stacked axis.

    lane 0: [client 7 ........][client 31 ...][client 2 .]
    lane 1: [client 12 ...][client 90 ...][client 55 ....]

A lane trains a queue of clients one after another, as sequence packing does for language models, so that ragged clients
leave no padding behind. Which lane a client lands on changes no bit of its update.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
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
    runs: int = 1  # that are played side by side
    passes: int = 1  # T of a pass before training


class Layout(NamedTuple):
    """One block of a round, laid out on lanes, as the host hands it over: few arrays, since each costs a transfer.

    Slots from i · block on are those of run i, where several are played side by side.
    """

    index: np.ndarray  # [T, C · L, B] rows of the training samples
    valid: np.ndarray  # [T, C · L] rows of a batch that count
    slot: np.ndarray  # [T + 1, C · L] slot trained at step t, one behind the last = idle
    until: np.ndarray  # [T] behind the next step at which a client ends, from t on
    ints: np.ndarray  # [6, runs · block] start, id, steps, place, malicious, seat
    floats: np.ndarray  # [5, runs · block] samples, weight, count, lr, lr_sum
    labels: np.ndarray  # [runs · block, C] samples of each class; C = 0 unless somebody asks
    seats: int  # R


class Jobs(NamedTuple):
    """The same on the device; columns by slot."""

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
    labels: Array  # samples of each class `[slots, C]`


class Part(NamedTuple):
    """A run's share of a round that several runs play side by side; a run that has ended has none."""

    plan: Plan
    work: RoundPlan
    first: bool = False  # the pass before training, over all samples as they stand

    @property
    def jobs(self) -> RoundPlan:
        """What is done in this pass."""
        return self.plan.probe_plan(self.work) if self.first else self.work

    def batches(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """As `Plan.batches` gives them."""
        return self.plan.single_pass(client) if self.first else self.plan.batches(self.work.round, client)


@jax.jit
def unpack(layout: Any) -> Jobs:
    """A `Layout` from the host to the device, in one call."""
    start, id, steps, place, malicious, seat = layout.ints
    samples, weight, count, lr, lr_sum = layout.floats
    by_lane = (layout.index, layout.valid, layout.slot, layout.until)
    whole = (start, id, steps, place, malicious > 0, seat)
    return Jobs(*by_lane, *whole, samples, weight, count, lr, lr_sum, layout.labels)


def columns(jobs: Jobs) -> Jobs:
    """The columns by slot alone: the lay-out on lanes is of no interest to the server."""
    nothing = jnp.zeros(jobs.id.shape[0], jnp.int32)
    return jobs._replace(index=nothing, valid=nothing, slot=nothing, until=nothing, seat=nothing)


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


def capacity(banks: Iterable[Sequence[Plan]], width: Width, pack: Packer = longest_first, crews: int = 1) -> Capacity:
    """The shapes that hold every block of every round of every bank of plans, whose runs are played side by side.

    Looks at each round up to a thousand; later ones that need more make the engine grow (and recompile), no bit changes.
    """
    lanes, block = width
    blocks, longest, batch, seats, samples, packed, members, runs, passes = 1, 1, 1, 1, 1, 0, 1, 1, 1

    def look(works: list[RoundPlan], passing: list[RoundPlan]) -> None:
        nonlocal blocks, longest, seats, samples, packed, passes
        cohort = max(len(work.ids) for work in works)
        blocks = max(blocks, -(-cohort // block))
        for first in range(0, cohort, block):
            part = np.concatenate([work.steps[first : first + block] for work in works])
            longest = max(longest, bound(part, lanes * crews))
            once = np.concatenate([work.steps[first : first + block] for work in passing])
            passes = max(passes, bound(once, lanes * crews))
            samples = max(samples, sum(int(work.samples[first : first + block].sum()) for work in works))
            if crews > 1 and packed < PACKED:
                seats = max(seats, crowd(pack(part, lanes * crews), crews))
                packed += len(part)

    for plans in banks:
        for plan in plans:
            batch = max(batch, plan.local.widest(plan.sizes))
        for works in zip_longest(*(plan.survey() for plan in plans)):
            there = [(plan, work) for plan, work in zip(plans, works, strict=True) if work is not None]
            look([work for _, work in there], [plan.probe_plan(work) for plan, work in there])
        members = max(members, *(len(plan.members) for plan in plans))
        runs = max(runs, len(plans))
    rows = runs * block if crews == 1 else roomy(seats)
    return Capacity(blocks, roomy(longest), batch, members, crews, rows, roomy(samples + 1), runs, roomy(passes))


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
    parts: Sequence[Part | None],
    first: int,
    width: Width,
    room: Capacity,
    dtype: np.dtype,
    pack: Packer = longest_first,
) -> tuple[Layout, int]:
    """The slots `first … first + block` of a round of every run on the lanes of all crews -> (layout, lane steps to do).

    Where the clients' memory lies is not known yet: `placed` adds it.
    """
    (lanes, block), C = width, room.crews
    slots = len(parts) * block
    ints, floats, labels = _columns(parts, first, block, dtype)
    queues = pack(ints[2], lanes * C)
    total = makespan(queues, ints[2])
    T = max(room.steps, roomy(total))
    R = room.seats if C == 1 else max(room.seats, roomy(crowd(queues, C)))
    index = np.zeros((T, C * lanes, room.batch), np.int32)
    valid = np.zeros((T, C * lanes), np.int32)
    slot = np.full((T + 1, C * lanes), slots, np.int32)
    ints[5] = np.arange(slots) if C == 1 else _seats(queues, C, R, slots)
    known: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}  # batches: runs that are compared have many in common
    for number, queue in enumerate(queues):
        t, lane = 0, (number % C) * lanes + number // C  # neighbours in the queue are with different crews
        for k in queue:
            part, client = parts[k // block], int(ints[1, k])
            assert part is not None
            job = (*part.plan.order, client)
            rows, count = known.get(job) or known.setdefault(job, part.batches(client))
            end = t + len(rows)
            index[t:end, lane, : rows.shape[1]], valid[t:end, lane], slot[t:end, lane] = rows, count, k
            t = end
    return Layout(index, valid, slot, ends_from(slot), ints, floats, labels, R), total


def laid_out(width: Width, room: Capacity, dtype: np.dtype, classes: int) -> Layout:
    """The shapes of any `lay_out` that stays within `room`, for all crews together; `classes`: of its `labels`."""
    shape, wide = jax.ShapeDtypeStruct, room.crews * width.lanes
    by_lane = ((room.steps, wide, room.batch), (room.steps, wide), (room.steps + 1, wide), (room.steps,))
    slots = room.runs * width.block
    by_slot = (shape((6, slots), np.int32), shape((5, slots), dtype), shape((slots, classes), dtype))
    shapes: list[Any] = [*(shape(sides, np.int32) for sides in by_lane), *by_slot, room.seats]
    return Layout(*shapes)


def _columns(
    parts: Sequence[Part | None], first: int, block: int, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is known of every slot; of empty slots zeros."""
    ints, floats = np.zeros((6, len(parts) * block), np.int32), np.zeros((5, len(parts) * block), dtype)
    labels = np.zeros((len(parts) * block, max(part.plan.labels.shape[1] for part in parts if part is not None)), dtype)
    here = slice(first, first + block)
    for i, (plan, work) in ((i, (part.plan, part.jobs)) for i, part in enumerate(parts) if part is not None):
        ids = work.ids[here]
        mine = slice(i * block, i * block + len(ids))
        for row, column in enumerate((i, ids, work.steps[here], 0, plan.malicious[ids])):
            ints[row, mine] = column
        numbers = (work.samples[here], work.weight[here], work.count[here], work.lr, work.lr_sum[here])
        for row, column in enumerate(numbers):
            floats[row, mine] = column
        labels[mine] = plan.labels[ids]
    return ints, floats, labels


def placed(layout: Layout, places: Sequence[np.ndarray], block: int) -> Layout:
    """The layout with the rows of memory of every run's clients."""
    for i, mine in enumerate(places):
        layout.ints[3, i * block : i * block + len(mine)] = mine
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


def _seats(queues: list[list[int]], C: int, R: int, slots: int) -> np.ndarray:
    """Row of every slot in the stacks of all crews, one after another `[slots]`; C · R: it has none."""
    seat = np.full(slots, C * R)
    for c in range(C):
        its = [k for queue in queues[c::C] for k in queue]
        seat[its] = c * R + np.arange(len(its))
    return seat
