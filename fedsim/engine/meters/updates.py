"""Which updates could be used, and whether the run goes on."""

from typing import NamedTuple

from fedsim.engine.meters.meter import Meter, Since
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.records import DispatchedRound

EMPTY_ROUNDS = 10  # a run ends when in this many rounds in a row no update could be used


class Policy(NamedTuple):
    """When a run ends before its last round, and when it counts as not run."""

    stop_on_nonfinite: bool = False  # end at the first message that is not finite
    stop_on_skipped: bool = False  # end at the first round with too few messages for the rule
    needs_aggregation: bool = True  # a run without an aggregated round counts as not run


class Updates(Meter):
    """Counts updates, and ends a run whose updates or model are of no use.

    Attributes:
      empty: rounds in a row in which clients reported, but no update could be used.
      trained: updates so far, of clients that trained.
      usable: trained updates that the rule could use.
      aggregated: usable updates that a round aggregated; the others were too few for the rule.
    """

    stored = ("empty", "trained", "usable", "aggregated")

    def __init__(self, policy: Policy, pipeline: Pipeline):
        self.policy = policy
        self.pipeline = pipeline
        self.empty = 0
        self.trained = 0
        self.usable = 0
        self.aggregated = 0

    @property
    def may_end(self) -> bool:
        """Whether the next round may end the run."""
        stops = self.policy.stop_on_nonfinite or self.policy.stop_on_skipped
        return stops or self.empty > 0

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        report = dispatched.report
        reported = int(report.reported)
        usable = int(report.usable)
        self.trained += reported
        self.usable += usable
        if not report.skipped:
            self.aggregated += usable
        if reported:  # a round in which nobody reported says nothing
            self.empty = 0 if usable else self.empty + 1

    def ending(self, dispatched: DispatchedRound) -> tuple[str, str] | None:
        report = dispatched.report
        nonfinite = int(report.nonfinite)
        if not bool(report.finite):
            return "diverged", "the shared model is no longer finite"
        if self.empty >= EMPTY_ROUNDS:
            return "diverged", f"{EMPTY_ROUNDS} rounds running, no client's update could be used"
        if self.policy.stop_on_nonfinite and nonfinite:
            return "stopped", f"{nonfinite} messages were not finite"
        if self.policy.stop_on_skipped and bool(report.skipped):
            usable = int(report.reported) - nonfinite
            return "stopped", f"{usable} usable messages, the rule needs {self.pipeline.least}"
        return None

    def verdict(self, round: int) -> tuple[str, str] | None:
        if self.aggregated or not self.policy.needs_aggregation:
            return None
        if self.trained and not self.usable:
            return "diverged", (
                f"round {round}: none of the {self.trained} updates of all rounds could be used, "
                "and the model never moved"
            )
        return "not_run", f"no round was aggregated: {self._shortage()}"

    def _shortage(self) -> str:
        """Return why no round of the run was aggregated, and what to do."""
        if not self.trained:
            return (
                "no client reported in any round; change cohort, fleet or schedule so that some do"
            )
        least = self.pipeline.least
        most = self.pipeline.rule.most
        needed = f"at least {least}" if most is None else f"{least} to {most}"
        return (
            f"the rule needs {needed} usable updates, and no round had that many; change the rule, "
            "or who reports"
        )
