"""The host's half of a round, block by block.

The next block is laid out while the device trains this one.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.engine.layout import Layout, compacted, lay_out
from fedsim.engine.program import Program
from fedsim.engine.slots import RunCohort
from fedsim.fleet import Planner


class BlockKey(NamedTuple):
    """Which block of which round of which runs."""

    round: int
    first_slot: int  # of each cohort
    playing: tuple[bool, ...]  # which runs take part
    is_probe: bool  # whether it belongs to the pass at the global model


class Block(NamedTuple):
    """Slots `first_slot … first_slot + block` of a round of every run, ready for the device."""

    key: BlockKey
    cohorts: list[RunCohort | None]  # of every run; None: it takes no part
    layout: Layout  # without the rows of client memory
    # (x, y) of every reader; empty where the device holds all samples
    samples: list[tuple[np.ndarray, np.ndarray]]
    models_per_run: int  # start models of every run in the bank

    @property
    def longest(self) -> int:
        """Clients of the largest cohort."""
        playing = [run_cohort for run_cohort in self.cohorts if run_cohort is not None]
        return max((len(run_cohort.cohort.ids) for run_cohort in playing), default=0)


class Blocks:
    """The blocks of all rounds of runs that are trained side by side.

    Args:
      readers: groups of lanes whose samples are cut for each block; empty where the device holds
        all samples.
    """

    def __init__(self, planners: Sequence[Planner], program: Program, readers: Sequence[slice]):
        self.planners = planners
        self.program = program
        self.readers = readers
        self.next: Block | None = None

    def first_of(self, round: int, playing: tuple[bool, ...]) -> Block:
        """Return the first block of a round, of its first pass."""
        return self.get(self._first_key(round, playing))

    def get(self, key: BlockKey) -> Block:
        """Return a block, which may have been prepared."""
        block = self.next
        self.next = None
        if block is not None and block.key == key:
            return block
        return self._make(key)

    def pass_from(self, block: Block) -> Iterator[Block]:
        """Yield a block, and those that follow it in the same pass of a round."""
        yield block
        key = self._following_key(block)
        while key is not None:
            block = self.get(key)
            yield block
            key = self._following_key(block)

    def prepare(self, block: Block) -> None:
        """Make the block after this one, if everything that it depends on is known."""
        key = self._following_key(block)
        if key is not None:
            self.next = self._make(key, block.cohorts)
        elif block.key.is_probe:  # the training follows
            self.next = self._make(training_key(block.key))
        elif self._can_draw_after(block):
            self.next = self._make(self._first_key(block.key.round + 1, block.key.playing))

    def _first_key(self, round: int, playing: tuple[bool, ...]) -> BlockKey:
        return BlockKey(round, 0, playing, is_probe=self.program.probe_mesh is not None)

    def _following_key(self, block: Block) -> BlockKey | None:
        """Return the key of the next block of the same pass; None after the last."""
        first_slot = block.key.first_slot + self.program.width.block
        if first_slot >= block.longest:
            return None
        return block.key._replace(first_slot=first_slot)

    def _can_draw_after(self, block: Block) -> bool:
        number = block.key.round + 1
        if number > max(planner.plan.rounds for planner in self.planners):
            return False
        playing = zip(self.planners, block.key.playing, strict=True)
        return all(planner.ready(number) for planner, plays in playing if plays)

    def _make(self, key: BlockKey, cohorts: list[RunCohort | None] | None = None) -> Block:
        """Lay out a block.

        Args:
          cohorts: the cohort of every run, where they have been drawn.
        """
        program = self.program
        if cohorts is None:
            cohorts = self._draw(key)

        # A round's clients may start from more models than any round before.
        models_per_run = program.capacity.models_per_run
        for run_cohort in cohorts:
            if run_cohort is not None:
                models_per_run = max(models_per_run, len(run_cohort.start_versions))
        capacity = program.capacity._replace(models_per_run=models_per_run)
        if key.is_probe:  # all clients of a run see the same models
            models_per_run = 1
            capacity = capacity._replace(steps=capacity.probe_steps, models_per_run=1)

        layout = lay_out(
            cohorts,
            first_slot=key.first_slot,
            width=program.width,
            capacity=capacity,
            dtype=program.dtype,
            pack=program.pack,
        )
        samples = []
        if self.readers:
            train = self.planners[0].plan.federation.train
            index, samples = compacted(
                layout.queues.index,
                x=train.x,
                y=train.y,
                samples=capacity.samples,
                readers=self.readers,
            )
            layout = layout._replace(queues=layout.queues._replace(index=index))
        return Block(
            key=key,
            cohorts=cohorts,
            layout=layout,
            samples=samples,
            models_per_run=models_per_run,
        )

    def _draw(self, key: BlockKey) -> list[RunCohort | None]:
        """Return the cohort of every run; None for runs that take no part."""
        cohorts = []
        for planner, plays in zip(self.planners, key.playing, strict=True):
            run_cohort = None
            if plays:
                run_cohort = RunCohort(planner.plan, planner.round(key.round), key.is_probe)
            cohorts.append(run_cohort)
        return cohorts


def training_key(key: BlockKey) -> BlockKey:
    """Return the key of the round's first block after the pass at the global model."""
    return key._replace(first_slot=0, is_probe=False)
