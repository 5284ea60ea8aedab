"""A long training in calls of about a second each, so that Ctrl-C is quick.

How a training is cut changes no bit.
"""

import time

import jax

from fedsim.engine.lanes import LaneInputs
from fedsim.engine.mesh import Buffers, Mesh

CALL_SECONDS = 1.0  # about what a device call may take
TRIAL_STEPS = 8  # lane steps that are timed, after a first one that compiles


class Pieces:
    """How many lane steps go into one device call.

    Args:
      calls: device calls of a block; None: as many as take about CALL_SECONDS each.
    """

    def __init__(self, calls: int | None = None):
        self.calls = calls
        self.steps_per_call = 0  # 0: not known yet

    def cuts(self, total: int) -> list[int]:
        """Return the ends of the calls of a block with `total` lane steps."""
        calls = 1
        if self.calls:
            calls = self.calls
        elif self.steps_per_call:
            calls = -(-total // self.steps_per_call)
        ends = {round(total * (i + 1) / calls) for i in range(calls)}
        return sorted(ends - {0})

    def trials(self, total: int) -> list[int]:
        """Return the first ends in the very first block: one step to compile, a few to time."""
        if self.calls or self.steps_per_call:
            return []
        ends = {min(1, total), min(1 + TRIAL_STEPS, total)}
        return sorted(ends - {0})

    def timed(self, steps: int, seconds: float) -> None:
        """Record that `steps` lane steps took `seconds`."""
        per_call = CALL_SECONDS * steps / max(seconds, 1e-9)
        self.steps_per_call = max(int(per_call), 1)


def train_block(
    mesh: Mesh, inputs: list[LaneInputs], buffers: Buffers, steps: int, pieces: Pieces
) -> Buffers:
    """Do all lane steps of one block, in one device call or several.

    Args:
      mesh: the lanes.
      inputs: what they read, for every shard.
      buffers: what they write to.
      steps: lane steps of the block.
      pieces: how the steps are cut into calls.

    Returns:
      The buffers, which hold the rows of the block.
    """
    t = 0
    tokens = None
    trials = pieces.trials(steps)
    for end in trials:
        began = time.perf_counter()
        buffers, tokens = mesh.train_all(inputs, buffers, t, end)
        jax.block_until_ready(tokens)
        if end == trials[-1] and t:  # the first piece compiles, the second one counts
            pieces.timed(end - t, time.perf_counter() - began)
        t = end

    for end in pieces.cuts(steps):
        if end <= t:  # done by the trials
            continue
        if tokens is not None:
            jax.block_until_ready(tokens)  # at most one call waits for the running one
        buffers, tokens = mesh.train_all(inputs, buffers, t, end)
        t = end
    return buffers
