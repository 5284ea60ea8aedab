"""A long training in calls of about a second each, so that Ctrl-C is quick. How it is cut changes
no bit.
"""

import time

import jax

from fedsim.engine.lanes import LaneInputs
from fedsim.engine.mesh import Buffers, Mesh

CALL_SECONDS = 1.0  # of a device call, about


class Pieces:
    """How many lane steps go into one device call: a fixed number of calls, or as many as fit into
    CALL_SECONDS.
    """

    def __init__(self, calls: int | None = None):
        self.calls, self.per_call = calls, 0

    def cuts(self, total: int) -> list[int]:
        """Ends of the calls of a block of `total` lane steps."""
        calls = self.calls or (-(-total // self.per_call) if self.per_call else 1)
        return sorted({round(total * (i + 1) / calls) for i in range(calls)} - {0})

    def trials(self, total: int) -> list[int]:
        """Cuts of the very first block: one step to compile, a few to time, then the rest."""
        return [] if self.calls or self.per_call else sorted({min(1, total), min(9, total)} - {0})

    def timed(self, steps: int, seconds: float) -> None:
        """Learn from `steps` lane steps that took `seconds`."""
        self.per_call = max(int(CALL_SECONDS * steps / max(seconds, 1e-9)), 1)


def train_block(
    mesh: Mesh, lent: list[LaneInputs], buffers: Buffers, steps: int, pieces: Pieces
) -> Buffers:
    """All lane steps of one block, in one call or several -> the buffers, whose rows are
    written.
    """
    t, tokens = 0, None
    trials = pieces.trials(steps)
    for cut in trials:
        begin = time.perf_counter()
        buffers, tokens = mesh.train_all(lent, buffers, t, cut)
        jax.block_until_ready(tokens)
        if cut == trials[-1] and t:  # the first piece compiles, the second one counts
            pieces.timed(cut - t, time.perf_counter() - begin)
        t = cut
    for cut in pieces.cuts(steps):
        if cut > t:
            if tokens is not None:
                jax.block_until_ready(tokens)  # at most one call waits for the running one
            buffers, tokens = mesh.train_all(lent, buffers, t, cut)
            t = cut
    return buffers
