"""The host's half of a round, block by block: the next block is laid out while the device trains
this one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsim.engine.layout import Layout, compacted, lay_out
from fedsim.engine.pack import Capacity, Packer, Width
from fedsim.engine.slots import RunCohort
from fedsim.fleet import Planner


class Block(NamedTuple):
    """Slots `first … first + block` of a round of every run, ready to be handed over."""

    round: int
    first: int
    playing: tuple[bool, ...]
    parts: list[RunCohort | None]
    layout: Layout  # without the places of client memory
    # (x, y) that each reader trains on, where there are such
    samples: list[tuple[np.ndarray, np.ndarray]]
    probe: bool  # of the pass at the global model
    versions: int  # start models of every run in the bank

    @property
    def longest(self) -> int:
        """Clients of the largest cohort."""
        return max((len(part.cohort.ids) for part in self.parts if part is not None), default=0)


class Blocks:
    """The blocks of all rounds of runs that are trained side by side.

    Args:
      planners: of the runs, over the same samples.
      width: lanes and block.
      room: static shapes.
      dtype: of the floats handed over.
      pack: which lane each client lands on.
      readers: lanes that are handed samples of their own with every block; none where the device
        holds all.
      probes: whether a round has a pass at the global model before training.
    """

    def __init__(
        self,
        planners: Sequence[Planner],
        width: Width,
        room: Capacity,
        dtype: np.dtype,
        pack: Packer,
        readers: Sequence[slice],
        probes: bool,
    ):
        self.planners, self.width, self.room, self.dtype, self.pack = (
            planners,
            width,
            room,
            dtype,
            pack,
        )
        self.readers, self.probes = readers, probes
        self.next: Block | None = None

    def get(self, r: int, first: int, playing: tuple[bool, ...], probe: bool = False) -> Block:
        """A block of a round of the runs that are playing, as it was prepared if it is the next
        one.
        """
        block, self.next = self.next, None
        if block is not None and (block.round, block.first, block.playing, block.probe) == (
            r,
            first,
            playing,
            probe,
        ):
            return block
        return self._made(r, first, playing, probe)

    def prepare(self, block: Block) -> None:
        """Make the one after `block`, where all that it depends on is known."""
        first = block.first + self.width.block
        if first < block.longest:
            self.next = self._made(block.round, first, block.playing, block.probe, block.parts)
        elif block.probe:
            self.next = self._made(block.round, 0, block.playing, False)
        elif block.round < max(planner.plan.rounds for planner in self.planners) and self._ready(
            block
        ):
            self.next = self._made(block.round + 1, 0, block.playing, self.probes)

    def following(self, block: Block) -> Block | None:
        """The next block of the same pass of a round; None behind the last."""
        first = block.first + self.width.block
        return (
            self.get(block.round, first, block.playing, block.probe)
            if first < block.longest
            else None
        )

    def _ready(self, block: Block) -> bool:
        """Whether the next round of all runs that play can be drawn."""
        playing = zip(self.planners, block.playing, strict=True)
        return all(planner.ready(block.round + 1) for planner, plays in playing if plays)

    def _made(
        self,
        r: int,
        first: int,
        playing: tuple[bool, ...],
        probe: bool,
        parts: list[RunCohort | None] | None = None,
    ) -> Block:
        if parts is None:
            planners = zip(self.planners, playing, strict=True)
            parts = [
                RunCohort(planner.plan, planner.round(r), probe) if plays else None
                for planner, plays in planners
            ]
        versions = max(
            [self.room.versions, *(len(part.versions) for part in parts if part is not None)]
        )
        room = self.room._replace(steps=self.room.passes) if probe else self.room
        layout = lay_out(parts, first, self.width, room, self.dtype, self.pack, versions)
        samples = []
        if self.readers:
            f = self.planners[0].plan.federation
            index, samples = compacted(
                layout.queues.index, f.train.x, f.train.y, self.room.samples, self.readers
            )
            layout = layout._replace(queues=layout.queues._replace(index=index))
        return Block(r, first, playing, parts, layout, samples, probe, versions)
