"""The rounds of a plan one after another: each is drawn when all that it depends on is known."""

import numpy as np

from fedsim.fleet.flights import State
from fedsim.fleet.plan import Plan, RoundPlan


class Planner:
    """A plan, what it goes on from, and what it was told of the rounds so far.

    A plan that is a pure function of the round is asked for any round at any time. Another one is asked once for every
    round, in their order; rounds that are drawn ahead change nothing of what a commit holds until they are over.

    Attributes:
      settled: the last round that is over.
      state: of the plan after that round.
      losses: of every client in the last round in which it took part, the mean over what it trained on `[N]`; NaN: it
        never did, +∞: no finite one. None where the cohort does not look at them.
    """

    def __init__(self, plan: Plan):
        self.plan, self.settled, self.state = plan, 0, plan.begin()
        self.losses = np.full(len(plan.sizes), np.nan) if "loss" in plan.cohort.needs else None
        self.ahead: dict[int, tuple[RoundPlan, State]] = {}

    def ready(self, r: int) -> bool:
        """Whether round r can be drawn, now that the rounds up to `settled` are over."""
        return self.losses is None or r == self.settled + 1

    def round(self, r: int) -> RoundPlan:
        """Round r."""
        if self.plan.pure:
            return self.plan.round(r)[0]
        if r not in self.ahead:
            before = self.state if r == self.settled + 1 else self.ahead[r - 1][1]
            self.ahead[r] = self.plan.round(r, before, self.losses)
        return self.ahead[r][0]

    def settle(self, work: RoundPlan, loss: np.ndarray, seen: np.ndarray) -> None:
        """A round is over: Σ of batch loss · rows and Σ of rows of its clients `[K]` (0 rows: none that counts)."""
        if not self.plan.pure:
            self.state, self.settled = self.ahead.pop(work.round)[1], work.round
        if self.losses is not None:
            with np.errstate(invalid="ignore", divide="ignore"):
                means = loss.astype(np.float64) / seen
            self.losses[work.ids] = np.where(np.isfinite(means), means, np.inf)

    def arrays(self) -> dict[str, np.ndarray]:
        """What a commit holds of it."""
        known = {} if self.losses is None else {"losses": self.losses}
        return {f"plan.{name}": np.array(value) for name, value in {**self.state, **known}.items()}

    def restore(self, arrays: dict[str, np.ndarray], r: int) -> None:
        """Go on after round r from what `arrays` gave."""
        known = {name.removeprefix("plan."): np.array(v) for name, v in arrays.items() if name.startswith("plan.")}
        self.settled, self.ahead = r, {}
        if self.losses is not None:
            self.losses = known.pop("losses")
        self.state = {name: known[name] for name in self.state}
