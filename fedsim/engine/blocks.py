"""The host's half of a round, block by block: the next block is laid out while the device trains this one."""

from typing import NamedTuple

import numpy as np

from fedsim.engine.pack import Capacity, Layout, Packer, Width, compacted, lay_out
from fedsim.fleet import Plan, RoundPlan


class Block(NamedTuple):
    """Slots `first … first + block` of a round, ready to be handed over."""

    work: RoundPlan
    first: int
    layout: Layout  # without the places of client memory
    steps: int  # lane steps to do
    samples: tuple[np.ndarray, np.ndarray] | None  # (x, y) that the block trains on, where the device does not hold all


class Blocks:
    """The blocks of all rounds of a run.

    Args:
      plan: the run's plan.
      width: lanes and block.
      room: static shapes.
      dtype: of the floats handed over.
      pack: which lane each client lands on.
      resident: whether the device holds all samples.
    """

    def __init__(self, plan: Plan, width: Width, room: Capacity, dtype: np.dtype, pack: Packer, resident: bool):
        self.plan, self.width, self.room, self.dtype, self.pack = plan, width, room, dtype, pack
        self.resident = resident
        self.next: Block | None = None

    def get(self, r: int, first: int = 0) -> Block:
        """A block of a round, as it was prepared if it is the next one."""
        here, self.next = self.next, None
        return here if here is not None and (here.work.round, here.first) == (r, first) else self._made(r, first)

    def prepare(self, block: Block) -> None:
        """Make the one behind `block`."""
        r, first = block.work.round, block.first + self.width.block
        if first < len(block.work.ids):
            self.next = self._made(r, first, block.work)
        elif r < self.plan.rounds:
            self.next = self._made(r + 1, 0)

    def _made(self, r: int, first: int, work: RoundPlan | None = None) -> Block:
        work = work or self.plan.round(r)
        layout, steps = lay_out(self.plan, work, first, self.width, self.room, self.dtype, self.pack)
        if self.resident:
            return Block(work, first, layout, steps, None)
        federation = self.plan.federation
        layout, samples = compacted(layout, federation.x, federation.y, self.room.samples)
        return Block(work, first, layout, steps, samples)
