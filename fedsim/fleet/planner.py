"""The rounds of a plan one after another: each is drawn when all that it depends on is known."""

from collections.abc import Mapping

import numpy as np

from fedsim.fleet.flights import State
from fedsim.fleet.plan import Plan, RoundPlan
from fedsim.fleet.selection import SKETCH


class Planner:
    """A plan, what it goes on from, and what it was told of the rounds so far.

    A plan that is a pure function of the round is asked for any round at any time. Another one is asked once for every
    round, in their order; rounds that are drawn ahead change nothing of what a commit holds until they are over.

    Attributes:
      completed: the last round that is over.
      state: of the plan after that round.
      feedback: what the cohort asks for, of every client in the last round in which it took part: `loss` and `norm` `[N]`,
        `sketch` `[N, SKETCH]`; NaN: it never did, +∞: not finite.
    """

    def __init__(self, plan: Plan):
        self.plan, self.completed, self.state = plan, 0, plan.begin()
        blank = {"sketch": np.full(SKETCH, np.nan, np.float32)}  # of the largest, half the bytes
        self.feedback = {
            name: np.repeat(blank.get(name, np.full((), np.nan))[None], len(plan.sizes), 0)
            for name in plan.cohort.feedback
        }
        self.ahead: dict[int, tuple[RoundPlan, State]] = {}

    def ready(self, r: int) -> bool:
        """Whether round r can be drawn, now that the rounds up to `completed` are over."""
        return not self.feedback or r == self.completed + 1

    def round(self, r: int) -> RoundPlan:
        """Round r."""
        if self.plan.pure:
            return self.plan.round(r)[0]
        if r not in self.ahead:
            before = self.state if r == self.completed + 1 else self.ahead[r - 1][1]
            self.ahead[r] = self.plan.round(r, before, self.feedback)
        return self.ahead[r][0]

    def complete(self, work: RoundPlan, feedback: Mapping[str, np.ndarray]) -> None:
        """A round is over; of what the cohort asks for, what its clients reported `[K, ...]`."""
        if not self.plan.pure:
            self.state, self.completed = self.ahead.pop(work.round)[1], work.round
        for name, known in self.feedback.items():
            with np.errstate(over="ignore"):
                reported = np.asarray(feedback[name]).astype(known.dtype)
            known[work.ids] = infinite_where_not_finite(reported)

    def arrays(self) -> dict[str, np.ndarray]:
        """What a commit holds of it."""
        return {
            f"plan.{name}": np.array(value)
            for name, value in {**self.state, **self.feedback}.items()
        }

    def restore(self, arrays: dict[str, np.ndarray], r: int) -> None:
        """Go on after round r from what `arrays` gave."""
        known = {
            name.removeprefix("plan."): np.array(v)
            for name, v in arrays.items()
            if name.startswith("plan.")
        }
        self.completed, self.ahead = r, {}
        self.feedback = {name: known[name] for name in self.feedback}
        self.state = {name: known[name] for name in self.state}


def infinite_where_not_finite(rows: np.ndarray) -> np.ndarray:
    """Rows `[K, ...]` of which one with a NaN or an infinity is infinite: a cohort then ranks its client last.

    >>> infinite_where_not_finite(np.array([[1.0, 2.0], [np.nan, 3.0]])).tolist()
    [[1.0, 2.0], [inf, inf]]
    """
    value_axes = tuple(range(1, rows.ndim))
    finite = np.isfinite(rows).all(axis=value_axes, keepdims=True)  # [K, 1, ...]
    return np.where(finite, rows, np.inf)
