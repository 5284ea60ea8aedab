"""A long training in calls of about a second each, so that Ctrl-C is quick.

How a training is cut changes no bit.
"""

import time
from collections.abc import Iterator
from typing import Any

import jax

CALL_SECONDS = 1.0  # about what a device call may take
TRIAL_STEPS = 8  # lane steps that are timed, after a first one that compiles


class Pieces:
    """How many lane steps go into one device call.

    Args:
      calls: device calls of a block; None: as many as take about CALL_SECONDS each.

    Attributes:
      running: what the latest call computes.
    """

    def __init__(self, calls: int | None = None):
        self.calls = calls
        self.steps_per_call = 0  # 0: not known yet
        self.running: Any = None

    def calls_of(self, total: int) -> Iterator[tuple[int, int]]:
        """Yield the calls of a block with `total` lane steps: the first, and one beyond the last.

        The caller sets `running` for each. At most one call waits for the running one.
        """
        first = 0
        trials = self._trials(total)
        for end in trials:
            began = time.perf_counter()
            yield first, end
            jax.block_until_ready(self.running)
            if end == trials[-1] and first:  # the first one compiles, the second one counts
                self._time(end - first, time.perf_counter() - began)
            first = end

        for end in self._cuts(total):
            if end <= first:  # done by the trials
                continue
            if first:
                jax.block_until_ready(self.running)
            yield first, end
            first = end
        self.running = None

    def _cuts(self, total: int) -> list[int]:
        """Return the ends of the calls of a block with `total` lane steps."""
        calls = 1
        if self.calls:
            calls = self.calls
        elif self.steps_per_call:
            calls = -(-total // self.steps_per_call)
        ends = {round(total * (i + 1) / calls) for i in range(calls)}
        return sorted(ends - {0})

    def _trials(self, total: int) -> list[int]:
        """Return the first ends in the very first block: one step to compile, a few to time."""
        if self.calls or self.steps_per_call:
            return []
        ends = {min(1, total), min(1 + TRIAL_STEPS, total)}
        return sorted(ends - {0})

    def _time(self, steps: int, seconds: float) -> None:
        per_call = CALL_SECONDS * steps / max(seconds, 1e-9)
        self.steps_per_call = max(int(per_call), 1)
