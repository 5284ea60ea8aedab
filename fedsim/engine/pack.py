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


class Layout(NamedTuple):
    """One block of a round, laid out on lanes, as the host hands it over: few arrays, since each costs a transfer."""

    index: np.ndarray  # [T, L, B] rows of the training samples
    valid: np.ndarray  # [T, L] rows of a batch that count
    slot: np.ndarray  # [T + 1, L] slot trained at step t, `block` = idle
    ints: np.ndarray  # [5, block] start, id, steps, place, malicious
    floats: np.ndarray  # [5, block] samples, weight, count, lr, lr_sum


class Jobs(NamedTuple):
    """The same on the device; slots `[block]`."""

    index: Array
    valid: Array
    slot: Array
    start: Array  # which start model of the bank
    id: Array  # client
    steps: Array  # planned local steps
    place: Array  # row of the client's memory
    malicious: Array  # whether the attacker controls the client
    samples: Array  # n_k
    weight: Array  # 0 = nothing arrives
    count: Array  # times drawn
    lr: Array  # client learning rate
    lr_sum: Array  # Σ of the learning rates of the planned steps


@jax.jit
def unpack(layout: Any) -> Jobs:
    """A `Layout` from the host to the device, in one call."""
    start, id, steps, place, malicious = layout.ints
    return Jobs(layout.index, layout.valid, layout.slot, start, id, steps, place, malicious > 0, *layout.floats)


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


def capacity(plans: list[Plan], rounds: int, width: Width, pack: Packer = longest_first) -> Capacity:
    """The shapes that hold every block of every round of all plans.

    Looks at each round up to 1,000; later ones that need more make the engine grow (and recompile), no bit changes.
    """
    lanes, block = width
    blocks, longest, batch = 1, 1, 1
    for plan in plans:
        batch = max(batch, int(plan.federation.sizes.max(initial=1)) if plan.local.batch is None else plan.local.batch)
        for r in range(1, min(rounds, 1000) + 1):
            steps = plan.round(r).steps
            blocks = max(blocks, -(-len(steps) // block))
            for first in range(0, len(steps), block):
                part = steps[first : first + block]
                longest = max(longest, makespan(pack(part, lanes), part))
    members = max(max(len(plan.members) for plan in plans), 1)
    return Capacity(blocks, roomy(longest), batch, members)


def roomy(n: int) -> int:
    """`n` rounded up to three significant bits: few distinct shapes, so that compiled programs are found in the cache."""
    unit = 1 << max(n.bit_length() - 3, 0)
    return -(-n // unit) * unit


def lay_out(
    plan: Plan,
    work: RoundPlan,
    places: np.ndarray,
    first: int,
    width: Width,
    room: Capacity,
    dtype: np.dtype,
    pack: Packer = longest_first,
) -> tuple[Layout, int]:
    """The round's slots `first … first + block` on lanes -> (layout, lane steps to do)."""
    lanes, block = width
    part = slice(first, first + block)
    ids, steps = work.ids[part], work.steps[part]
    queues = pack(steps, lanes)
    total = makespan(queues, steps)
    T = max(room.steps, roomy(total))
    index = np.zeros((T, lanes, room.batch), np.int32)
    valid = np.zeros((T, lanes), np.int32)
    slot = np.full((T + 1, lanes), block, np.int32)
    for lane, queue in enumerate(queues):
        t = 0
        for k in queue:
            rows, count = plan.batches(work.round, int(ids[k]))
            end = t + len(rows)
            index[t:end, lane, : rows.shape[1]], valid[t:end, lane], slot[t:end, lane] = rows, count, k
            t = end
    ints, floats = np.zeros((5, block), np.int32), np.zeros((5, block), dtype)
    columns = (work.samples[part], work.weight[part], work.count[part], work.lr, work.lr_sum[part])
    for row, column in enumerate((0, ids, steps, places[part], plan.malicious[ids])):
        ints[row, : len(ids)] = column
    for row, column in enumerate(columns):
        floats[row, : len(ids)] = column
    return Layout(index, valid, slot, ints, floats), total
