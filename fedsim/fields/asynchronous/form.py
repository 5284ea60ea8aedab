"""Models in flight: clients of an asynchronous server start from older versions of its model."""

from typing import TYPE_CHECKING

import numpy as np

from fedsim.engine.forms.one import OneModel
from fedsim.engine.server_records import RoundStart
from fedsim.engine.slots import RunCohort
from fedsim.fields.asynchronous import rounds
from fedsim.fields.asynchronous.versions import Versions
from fedsim.fleet import Plan, Planner
from fedsim.types import Mixing, Shared

if TYPE_CHECKING:
    from fedsim.engine.records import RoundState
    from fedsim.engine.run import Run


class InFlight(OneModel):
    """The versions that clients still train from."""

    def __init__(self, plan: Plan, initial: Shared):
        self.plan = plan
        self.versions = Versions(0, initial)

    def start(self, run: "Run", run_cohort: RunCohort, start: RoundStart) -> RoundStart:
        """Return the start of a round with how the model of its only client is mixed.

        A schedule that mixes models (`fedasync`) makes every message a round; others do not.
        """
        share_of_age = self.plan.timetable.mixing
        if share_of_age is None:
            return start
        cohort = run_cohort.cohort
        if len(cohort.ids):
            version = cohort.start[0]
            share = share_of_age(cohort.age[0])
        else:  # a round without a client
            version = cohort.round - 1
            share = 0.0
        params = run.program.server.pipeline.shared_params(self.versions[version])
        return start._replace(mixing=Mixing(params, run.program.dtype.type(share)))

    def models(self, state: "RoundState", count: int) -> list[Shared]:
        """Return the versions that clients start from, rising; the last one is repeated."""
        if state.cohort is None:
            return super().models(state, count)
        started = np.unique(state.cohort.start).tolist()
        if not started:  # a round without a client
            started = [state.cohort.round - 1]
        models = [self.versions[version] for version in started]
        return models + models[-1:] * (count - len(models))

    def close(self, round: int, shared: Shared) -> None:
        """Add the version that a round makes."""
        self.versions.add(round, shared)

    def over(self, planner: Planner, round: int, shared: Shared) -> None:
        """Forget versions that nobody trains from any more."""
        self.versions.add(round, shared)
        self.versions.release(round, self._needed(planner))

    def arrays(self, planner: Planner) -> dict[str, np.ndarray]:
        """Return the versions that clients train from."""
        return self.versions.arrays(planner.completed, self._needed(planner))

    def restore(self, arrays: dict[str, np.ndarray], planner: Planner, shared: Shared) -> None:
        """Resume from what `arrays` returned."""
        self.versions.restore(arrays, planner.completed, shared, self._needed(planner))

    def _needed(self, planner: Planner) -> list[int]:
        """Return the versions that clients train from at the end of a round."""
        return rounds.versions_in_flight(planner.state)
