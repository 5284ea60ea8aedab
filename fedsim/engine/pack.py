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

MAX_PACKED = 100_000  # clients that are packed before the run, to see how many a shard gets


class Width(NamedTuple):
    """Numbers that bits depend on, as they do on `Plan.batch_rows`; part of a result's identity."""

    lanes: int
    block: int


class Capacity(NamedTuple):
    """Static shapes of the program: maxima over the whole run, not part of a result's identity."""

    blocks: int
    steps: int  # T, lane steps of the longest block
    members: int  # clients that ever take part
    shards: int  # S, groups of lanes, each on its own thread or device
    seats: int  # R, rows that a shard writes
    samples: int  # that one block trains on, at most
    runs: int = 1  # that are trained side by side
    probe_steps: int = 1  # T of the pass at the global model
    # W, start models of every run; never 1 where clients of one run start from several
    models_per_run: int = 1


def longest_first(steps: np.ndarray, lanes: int) -> list[list[int]]:
    """Pack slots by longest processing time, each on the least loaded lane (ties to the lowest).

    Args:
      steps: steps of every slot; slots without steps are not packed.

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
    groups: Iterable[Sequence[Plan]],
    width: Width,
    pack: Packer = longest_first,
    shards: int = 1,
    samples_by_shard: bool = False,
    models: int = 1,
) -> Capacity:
    """Return the shapes that hold every block of every round.

    Up to a thousand rounds are surveyed. A later one that needs more makes the engine grow (and
    recompile); no bit changes.

    Args:
      groups: for each group of runs that train side by side, their plans.
      samples_by_shard: whether a shard holds only the samples of the clients that it trains.
    """
    survey = Survey(width, pack, shards, samples_by_shard)
    survey.models_per_run = models
    for plans in groups:
        survey.add_group(plans)
    return survey.capacity()


class Survey:
    """Maxima over the rounds of all runs, from which the static shapes follow."""

    def __init__(self, width: Width, pack: Packer, shards: int, samples_by_shard: bool):
        self.width = width
        self.pack = pack
        self.shards = shards
        self.samples_by_shard = samples_by_shard

        self.blocks = 1
        self.steps = 1
        self.members = 1
        self.seats = 1
        self.samples = 1
        self.runs = 1
        self.probe_steps = 1
        self.models_per_run = 1
        self.packed = 0  # clients that were packed so far

    def add_group(self, plans: Sequence[Plan]) -> None:
        """Add the rounds of runs that are trained side by side."""
        self.runs = max(self.runs, len(plans))
        for rounds in zip_longest(*(plan.survey.rounds() for plan in plans)):
            cohorts = []
            probes = []
            for plan, cohort in zip(plans, rounds, strict=True):
                if cohort is None:  # this run has fewer rounds
                    continue
                cohorts.append(cohort)
                probes.append(plan.probe_plan(cohort))
                if plan.timetable.asynchronous:
                    self.models_per_run = max(self.models_per_run, 2, len(np.unique(cohort.start)))
            self._add_round(cohorts, probes)

        # The survey of a plan has found out which clients ever take part.
        for plan in plans:
            self.members = max(self.members, len(plan.survey.members))

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
        self.steps = max(self.steps, step_bound(steps, lanes))
        self.probe_steps = max(self.probe_steps, step_bound(probe_steps, lanes))
        if not self.samples_by_shard:
            self.samples = max(self.samples, int(samples.sum()))

        # Only shards of several depend on the packing, which takes long for many clients.
        if self.shards > 1 and self.packed < MAX_PACKED:
            queues = self.pack(steps, lanes)
            self.packed += len(steps)
            self.seats = max(self.seats, max_clients_of_shard(queues, self.shards))
            if self.samples_by_shard:
                self.samples = max(self.samples, max_sum_of_shard(samples, queues, self.shards))

    def capacity(self) -> Capacity:
        """Return the shapes, with steps, seats and samples rounded up."""
        seats = rounded_up(self.seats)
        if self.shards == 1:
            seats = self.runs * self.width.block
        return Capacity(
            blocks=self.blocks,
            steps=rounded_up(self.steps),
            members=self.members,
            shards=self.shards,
            seats=seats,
            samples=rounded_up(self.samples + 1),
            runs=self.runs,
            probe_steps=rounded_up(self.probe_steps),
            models_per_run=self.models_per_run,
        )


def step_bound(steps: np.ndarray, lanes: int) -> int:
    """Return a bound on the lane steps that longest-first packing takes.

    When the lane that ends last took its last client, no lane had less to do.
    """
    longest = int(steps.max(initial=0))
    return (int(steps.sum()) - longest) // lanes + longest


def max_clients_of_shard(queues: list[list[int]], shards: int) -> int:
    """Return the number of clients of the busiest shard; queue j belongs to shard j mod S."""
    return max(sum(len(queue) for queue in queues[s::shards]) for s in range(shards))


def max_sum_of_shard(counts: np.ndarray, queues: list[list[int]], shards: int) -> int:
    """Return the largest sum of `counts` over the slots of a shard."""
    return max(sum(int(counts[queue].sum()) for queue in queues[s::shards]) for s in range(shards))


def rounded_up(n: int) -> int:
    """Return `n` rounded up to three significant bits.

    Few distinct shapes occur, so that compiled programs are found in the cache.
    """
    unit = 1 << max(n.bit_length() - 3, 0)
    return -(-n // unit) * unit
