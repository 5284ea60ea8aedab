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
    first: int  # first slot in each cohort
    playing: tuple[bool, ...]  # which runs take part
    probe: bool  # whether it belongs to the pass at the global model


class Block(NamedTuple):
    """Slots `first … first + block` of a round of every run, ready for the device."""

    key: BlockKey
    parts: list[RunCohort | None]  # the share of every run
    layout: Layout  # without the rows of client memory
    # (x, y) of every reader; empty where the device holds all samples
    samples: list[tuple[np.ndarray, np.ndarray]]
    versions: int  # start models of every run in the bank

    @property
    def longest(self) -> int:
        """Clients of the largest cohort."""
        return max((len(part.cohort.ids) for part in self.parts if part is not None), default=0)


class Blocks:
    """The blocks of all rounds of runs that are trained side by side.

    Args:
      planners: the runs' planners, over the same samples.
      program: the program that trains them.
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
            self.next = self._make(key, block.parts)
        elif block.key.probe:  # the training follows
            self.next = self._make(training_key(block.key))
        elif self._can_draw_after(block):
            self.next = self._make(self._first_key(block.key.round + 1, block.key.playing))

    def _first_key(self, round: int, playing: tuple[bool, ...]) -> BlockKey:
        """Return the key of the first block of a round."""
        return BlockKey(round, 0, playing, probe=self.program.probe is not None)

    def _following_key(self, block: Block) -> BlockKey | None:
        """Return the key of the next block of the same pass; None after the last."""
        first = block.key.first + self.program.width.block
        if first >= block.longest:
            return None
        return block.key._replace(first=first)

    def _can_draw_after(self, block: Block) -> bool:
        """Whether the next round of all runs that take part can be drawn."""
        number = block.key.round + 1
        if number > max(planner.plan.rounds for planner in self.planners):
            return False
        playing = zip(self.planners, block.key.playing, strict=True)
        return all(planner.ready(number) for planner, plays in playing if plays)

    def _make(self, key: BlockKey, parts: list[RunCohort | None] | None = None) -> Block:
        """Lay out a block.

        Args:
          key: the block's key.
          parts: the share of every run, where it has been drawn.
        """
        program = self.program
        if parts is None:
            parts = self._draw(key)

        # A round's clients may start from more models than any round before.
        versions = program.room.versions
        for part in parts:
            if part is not None:
                versions = max(versions, len(part.versions))
        room = program.room._replace(versions=versions)
        if key.probe:
            room = room._replace(steps=room.passes)

        layout = lay_out(
            parts,
            first=key.first,
            width=program.width,
            room=room,
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
                samples=room.samples,
                readers=self.readers,
            )
            layout = layout._replace(queues=layout.queues._replace(index=index))
        return Block(key, parts, layout, samples, versions)

    def _draw(self, key: BlockKey) -> list[RunCohort | None]:
        """Return the share of every run in a round; None for runs that do not take part."""
        parts = []
        for planner, plays in zip(self.planners, key.playing, strict=True):
            part = None
            if plays:
                part = RunCohort(planner.plan, planner.round(key.round), key.probe)
            parts.append(part)
        return parts


def training_key(key: BlockKey) -> BlockKey:
    """Return the key of the round's first block after the pass at the global model."""
    return key._replace(first=0, probe=False)
