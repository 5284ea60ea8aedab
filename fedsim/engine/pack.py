"""Clients onto lanes: who trains after whom, and the static shapes that hold every round.

    lane 0: [client 7 ........][client 31 ...][client 2 .]
    lane 1: [client 12 ...][client 90 ...][client 55 ....]

A lane trains a queue of clients in sequence, as sequence packing does for language models, so that
clients of different sizes leave no padding behind. Which lane a client lands on changes no bit of
its update.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from fedsim.fleet import Plan, RoundPlan

Packer = Callable[[np.ndarray, int], list[list[int]]]
"""(steps of every slot, lanes) -> queue of slots of every lane."""

PACKED = 100_000  # clients that are packed before the run, to see how many a shard gets


class Width(NamedTuple):
    """The two numbers that XLA's bits depend on; part of a result's identity."""

    lanes: int
    block: int


class Capacity(NamedTuple):
    """Static shapes of the program: maxima over the whole run, not part of a result's identity."""

    blocks: int
    steps: int  # T, lane steps of the longest block
    batch: int  # B
    members: int  # clients that ever take part
    shards: int  # S, groups of lanes, each on its own thread or device
    seats: int  # R, rows that a shard writes
    samples: int  # that one block trains on, at most
    runs: int = 1  # that are trained side by side
    passes: int = 1  # T of the pass at the global model
    # W, start models of every run; never 1 where clients of one run start from several
    versions: int = 1


def longest_first(steps: np.ndarray, lanes: int) -> list[list[int]]:
    """Pack slots by longest processing time, each on the least loaded lane (ties to the lowest).

    Args:
      steps: steps of every slot; slots without steps are not packed.
      lanes: number of lanes.

    Returns:
      The queue of slots of every lane.
    """
    queues: list[list[int]] = [[] for _ in range(lanes)]
    heap = [(0, lane) for lane in range(lanes)]
    for slot in np.argsort(-steps, kind="stable"):
        if steps[slot] > 0:
            load, lane = heap[0]
            queues[lane].append(int(slot))
            heapq.heapreplace(heap, (load + int(steps[slot]), lane))
    return queues


def makespan(queues: list[list[int]], steps: np.ndarray) -> int:
    """Return the steps of the longest lane."""
    return max((int(steps[queue].sum()) for queue in queues if queue), default=0)


def capacity(
    banks: Iterable[Sequence[Plan]],
    width: Width,
    pack: Packer = longest_first,
    shards: int = 1,
    apart: bool = False,
) -> Capacity:
    """Return the shapes that hold every block of every round.

    Up to a thousand rounds are surveyed. A later one that needs more makes the engine grow (and
    recompile); no bit changes.

    Args:
      banks: for each group of runs that train side by side, their plans.
      width: lanes and block.
      pack: decides which lane each client lands on.
      shards: groups of lanes.
      apart: whether a shard holds only the samples of the clients that it trains.
    """
    survey = Survey(width, pack, shards, apart)
    for plans in banks:
        survey.add_bank(plans)
    return survey.capacity()


class Survey:
    """Maxima over the rounds of all runs, from which the static shapes follow."""

    def __init__(self, width: Width, pack: Packer, shards: int, apart: bool):
        self.width = width
        self.pack = pack
        self.shards = shards
        self.apart = apart

        self.blocks = 1
        self.steps = 1
        self.batch = 1
        self.members = 1
        self.seats = 1
        self.samples = 1
        self.runs = 1
        self.passes = 1
        self.versions = 1
        self.packed = 0  # clients that were packed so far

    def add_bank(self, plans: Sequence[Plan]) -> None:
        """Add the rounds of runs that are trained side by side."""
        self.runs = max(self.runs, len(plans))
        for plan in plans:
            self.batch = max(self.batch, plan.local.widest(plan.sizes))

        for rounds in zip_longest(*(plan.survey() for plan in plans)):
            cohorts = []
            probes = []
            for plan, cohort in zip(plans, rounds, strict=True):
                if cohort is None:  # this run has fewer rounds
                    continue
                cohorts.append(cohort)
                probes.append(plan.probe_plan(cohort))
                if plan.timetable.asynchronous:
                    self.versions = max(self.versions, 2, len(np.unique(cohort.start)))
            self._add_round(cohorts, probes)

        # The survey of a plan has found out which clients ever take part.
        for plan in plans:
            self.members = max(self.members, len(plan.members))

    def _add_round(self, cohorts: list[RoundPlan], probes: list[RoundPlan]) -> None:
        """Add a round of runs side by side: their cohorts, and their passes at the global model."""
        block = self.width.block
        largest = max(len(cohort.ids) for cohort in cohorts)
        self.blocks = max(self.blocks, -(-largest // block))

        for first in range(0, largest, block):
            rows = slice(first, first + block)
            self._add_block(
                steps=np.concatenate([cohort.steps[rows] for cohort in cohorts]),
                probe_steps=np.concatenate([probe.steps[rows] for probe in probes]),
                samples=np.concatenate([cohort.samples[rows] for cohort in cohorts]),
            )

    def _add_block(self, steps: np.ndarray, probe_steps: np.ndarray, samples: np.ndarray) -> None:
        """Add a block of clients `[slots]`, the slots of all runs."""
        lanes = self.width.lanes * self.shards
        self.steps = max(self.steps, bound(steps, lanes))
        self.passes = max(self.passes, bound(probe_steps, lanes))
        if not self.apart:
            self.samples = max(self.samples, int(samples.sum()))

        # Only shards of several depend on the packing, which takes long for many clients.
        if self.shards > 1 and self.packed < PACKED:
            queues = self.pack(steps, lanes)
            self.packed += len(steps)
            self.seats = max(self.seats, crowd(queues, self.shards))
            if self.apart:
                self.samples = max(self.samples, burden(samples, queues, self.shards))

    def capacity(self) -> Capacity:
        """Return the shapes, with steps, seats and samples rounded up."""
        seats = roomy(self.seats)
        if self.shards == 1:
            seats = self.runs * self.width.block
        return Capacity(
            blocks=self.blocks,
            steps=roomy(self.steps),
            batch=self.batch,
            members=self.members,
            shards=self.shards,
            seats=seats,
            samples=roomy(self.samples + 1),
            runs=self.runs,
            passes=roomy(self.passes),
            versions=self.versions,
        )


def bound(steps: np.ndarray, lanes: int) -> int:
    """Return a bound on the lane steps that longest-first packing takes.

    When the lane that ends last took its last client, no lane had less to do.
    """
    longest = int(steps.max(initial=0))
    return (int(steps.sum()) - longest) // lanes + longest


def crowd(queues: list[list[int]], shards: int) -> int:
    """Return the number of clients of the busiest shard; queue j belongs to shard j mod S."""
    return max(sum(len(queue) for queue in queues[s::shards]) for s in range(shards))


def burden(counts: np.ndarray, queues: list[list[int]], shards: int) -> int:
    """Return the largest sum of `counts` over the slots of a shard."""
    return max(sum(int(counts[queue].sum()) for queue in queues[s::shards]) for s in range(shards))


def roomy(n: int) -> int:
    """Return `n` rounded up to three significant bits.

    Few distinct shapes occur, so that compiled programs are found in the cache.
    """
    unit = 1 << max(n.bit_length() - 3, 0)
    return -(-n // unit) * unit
