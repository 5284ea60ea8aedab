"""Clients onto lanes: the host side of the stacked axis.

    lane 0: [client 7 ........][client 31 ...][client 2 .]
    lane 1: [client 12 ...][client 90 ...][client 55 ....]

A lane trains a queue of clients one after another, as sequence packing does for language models, so that ragged clients
leave no padding behind. Which lane a client lands on changes no bit of its update.
"""

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

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


Column = Any  # np.ndarray as laid out, jax.Array once on the device


class Jobs(NamedTuple):
    """One block of a round, laid out on lanes; slots `[block]`, lane steps `[T]`, lanes `[L]`."""

    index: Column  # [T, L, B] rows of the training samples
    valid: Column  # [T, L] rows of a batch that count
    slot: Column  # [T + 1, L] slot trained at step t, `block` = idle
    start: Column  # [block] which start model of the bank
    id: Column  # [block] client
    samples: Column  # [block] n_k
    weight: Column  # [block] 0 = nothing arrives
    count: Column  # [block] times drawn
    steps: Column  # [block] planned local steps
    lr: Column  # [block] client learning rate


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
    return Capacity(blocks, roomy(longest), batch)


def roomy(n: int) -> int:
    """`n` rounded up to three significant bits: few distinct shapes, so that compiled programs are found in the cache."""
    unit = 1 << max(n.bit_length() - 3, 0)
    return -(-n // unit) * unit


def lay_out(
    plan: Plan, work: RoundPlan, first: int, width: Width, room: Capacity, dtype: np.dtype, pack: Packer = longest_first
) -> tuple[Jobs, int]:
    """The round's slots `first … first + block` on lanes -> (jobs, lane steps to do)."""
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
    ints = [np.zeros(len(ids)), ids, steps]
    floats = [work.samples[part], work.weight[part], work.count[part], np.full(len(ids), work.lr)]
    pad = (0, block - len(ids))
    start, id, steps = (np.pad(column, pad).astype(np.int32) for column in ints)
    samples, weight, count, lr = (np.pad(column, pad).astype(dtype) for column in floats)
    return Jobs(index, valid, slot, start, id, samples, weight, count, steps, lr), total
