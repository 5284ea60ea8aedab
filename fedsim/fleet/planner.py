"""Draws the rounds of a plan in order, each as soon as everything it depends on is known."""

from collections.abc import Mapping

import numpy as np

from fedsim.fleet.plan import Plan, RoundPlan
from fedsim.fleet.round_plan import State
from fedsim.fleet.selection import SKETCH_SIZE

PREFIX = "plan."  # of the names of arrays in a commit


class Planner:
    """A plan, its state, and what clients have reported so far.

    A pure plan can be asked for any round at any time. Any other plan is asked once for every
    round, in order; rounds that are drawn ahead do not change what a commit stores until they are
    completed.

    Attributes:
      completed: the last completed round.
      state: the plan's state after that round.
      feedback: what the cohort looks at, for every client, from the last round in which it took
        part: `loss` and `norm` `[N]`, `sketch` `[N, SKETCH_SIZE]`; NaN: it never did, +∞: not
        finite.
      ahead: rounds that are drawn but not completed, each with the state after it.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.completed = 0
        self.state = plan.begin()
        self.feedback = {name: unknown(name, len(plan.sizes)) for name in plan.cohort.feedback}
        self.ahead: dict[int, tuple[RoundPlan, State]] = {}

    def ready(self, r: int) -> bool:
        """Return whether round r can be drawn, given that the rounds up to `completed` are over."""
        return not self.feedback or r == self.completed + 1

    def round(self, r: int) -> RoundPlan:
        if self.plan.pure:
            return self.plan.round(r)[0]
        if r not in self.ahead:
            if r == self.completed + 1:
                before = self.state
            else:
                _, before = self.ahead[r - 1]
            self.ahead[r] = self.plan.round(r, before, self.feedback)
        work, _ = self.ahead[r]
        return work

    def state_after(self, r: int) -> State:
        """Return the plan's state after round r, which is completed last or drawn ahead."""
        if r == self.completed:
            return self.state
        _, after = self.ahead[r]
        return after

    def complete(self, work: RoundPlan, feedback: Mapping[str, np.ndarray]) -> None:
        """Record that a round is over.

        Args:
          feedback: what its clients reported `[K, ...]`, for every name in `self.feedback`.
        """
        if not self.plan.pure:
            _, self.state = self.ahead.pop(work.round)
            self.completed = work.round
        for name, table in self.feedback.items():
            with np.errstate(over="ignore"):
                reported = np.asarray(feedback[name]).astype(table.dtype)
            table[work.ids] = infinite_where_not_finite(reported)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a commit stores."""
        stored = {**self.state, **self.feedback}
        return {PREFIX + name: np.array(value) for name, value in stored.items()}

    def restore(self, arrays: dict[str, np.ndarray], r: int) -> None:
        """Continue after round r from what `arrays` returned."""
        self.completed = r
        self.ahead = {}
        self.feedback = {name: np.array(arrays[PREFIX + name]) for name in self.feedback}
        self.state = {name: np.array(arrays[PREFIX + name]) for name in self.state}


def unknown(name: str, N: int) -> np.ndarray:
    """Return a column of `feedback` in which no client has reported `[N, ...]`."""
    if name == "sketch":  # the largest column: single precision halves its bytes
        return np.full((N, SKETCH_SIZE), np.nan, np.float32)
    return np.full(N, np.nan)


def infinite_where_not_finite(rows: np.ndarray) -> np.ndarray:  # [K, ...] -> [K, ...]
    """Make rows with a NaN or an infinity infinite, so that a cohort ranks their clients last.

    >>> infinite_where_not_finite(np.array([[1.0, 2.0], [np.nan, 3.0]])).tolist()
    [[1.0, 2.0], [inf, inf]]
    """
    value_axes = tuple(range(1, rows.ndim))
    finite = np.isfinite(rows).all(axis=value_axes, keepdims=True)  # [K, 1, ...]
    return np.where(finite, rows, np.inf)
