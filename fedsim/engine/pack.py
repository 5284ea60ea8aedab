"""Clients onto lanes: who trains after whom, and the static shapes that hold every round.

    lane 0: [client 7 ........][client 31 ...][client 2 .]
    lane 1: [client 12 ...][client 90 ...][client 55 ....]

A lane trains a queue of clients one after another, as sequence packing does for language models, so that ragged clients
leave no padding behind. Which lane a client lands on changes no bit of its update.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from fedsim.fleet import Plan, RoundPlan

Packer = Callable[[np.ndarray, int], list[list[int]]]
PACKED = 100_000  # clients that are packed before the run, to see how many a shard gets


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
    shards: int  # S, groups of lanes, each on a thread or device of its own
    seats: int  # R, rows that a shard writes
    samples: int  # that one block trains on, at most
    runs: int = 1  # that are trained side by side
    passes: int = 1  # T of the pass at the global model
    versions: int = (
        1  # W, start models of every run; never 1 where clients of one run start from several
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


def capacity(
    banks: Iterable[Sequence[Plan]],
    width: Width,
    pack: Packer = longest_first,
    shards: int = 1,
    apart: bool = False,
) -> Capacity:
    """The shapes that hold every block of every round of every bank of plans, whose runs are trained side by side.

    Looks at each round up to a thousand; later ones that need more make the engine grow (and recompile), no bit changes.
    Where shards hold samples `apart`, each has room for those of the clients that it trains.
    """
    lanes, block = width
    blocks, longest, batch, seats, samples, packed, members, runs, passes, versions = (
        1,
        1,
        1,
        1,
        1,
        0,
        1,
        1,
        1,
        1,
    )

    def count(cohorts: list[RoundPlan], probes: list[RoundPlan]) -> None:
        nonlocal blocks, longest, seats, samples, packed, passes
        largest = max(len(cohort.ids) for cohort in cohorts)
        blocks = max(blocks, -(-largest // block))
        for first in range(0, largest, block):
            steps = np.concatenate([cohort.steps[first : first + block] for cohort in cohorts])
            longest = max(longest, bound(steps, lanes * shards))
            once = np.concatenate([cohort.steps[first : first + block] for cohort in probes])
            passes = max(passes, bound(once, lanes * shards))
            held = np.concatenate([cohort.samples[first : first + block] for cohort in cohorts])
            samples = samples if apart else max(samples, int(held.sum()))
            if shards > 1 and packed < PACKED:
                queues = pack(steps, lanes * shards)
                seats = max(seats, crowd(queues, shards))
                packed += len(steps)
                if apart:
                    samples = max(samples, burden(held, queues, shards))

    for plans in banks:
        for plan in plans:
            batch = max(batch, plan.local.widest(plan.sizes))
        for rounds in zip_longest(*(plan.survey() for plan in plans)):
            cohorts = [
                (plan, cohort)
                for plan, cohort in zip(plans, rounds, strict=True)
                if cohort is not None
            ]
            count(
                [cohort for _, cohort in cohorts],
                [plan.probe_plan(cohort) for plan, cohort in cohorts],
            )
            started = [cohort.start for plan, cohort in cohorts if plan.timetable.asynchronous]
            versions = max([versions, *(max(2, len(np.unique(start))) for start in started)])
        members = max(members, *(len(plan.members) for plan in plans))
        runs = max(runs, len(plans))
    return Capacity(
        blocks=blocks,
        steps=roomy(longest),
        batch=batch,
        members=members,
        shards=shards,
        seats=runs * block if shards == 1 else roomy(seats),
        samples=roomy(samples + 1),
        runs=runs,
        passes=roomy(passes),
        versions=versions,
    )


def bound(steps: np.ndarray, lanes: int) -> int:
    """Lane steps that longest-first never exceeds: when the lane that ends last took its last client, no lane had less to do."""
    longest = int(steps.max(initial=0))
    return (int(steps.sum()) - longest) // lanes + longest


def crowd(queues: list[list[int]], shards: int) -> int:
    """Clients of the busiest shard; queue j is with shard j mod S."""
    return max(sum(len(queue) for queue in queues[s::shards]) for s in range(shards))


def burden(counts: np.ndarray, queues: list[list[int]], shards: int) -> int:
    """What the slots of the busiest shard count together."""
    return max(sum(int(counts[queue].sum()) for queue in queues[s::shards]) for s in range(shards))


def roomy(n: int) -> int:
    """`n` rounded up to three significant bits: few distinct shapes, so that compiled programs are found in the cache."""
    unit = 1 << max(n.bit_length() - 3, 0)
    return -(-n // unit) * unit
