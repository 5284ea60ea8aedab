"""The rounds of a plan before the run: for its shapes, its memory, and who may take part."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fedsim.fleet.round_plan import Participants, RoundPlan

if TYPE_CHECKING:
    from fedsim.fleet.plan import Plan

MAX_SURVEYED_ROUNDS = 1000  # rounds whose cohorts are drawn before the run, for shapes and memory
MAX_SURVEYED_FLIGHTS = 100_000  # the same limit in flights, which are simulated one by one


class Survey:
    """The first rounds of a plan.

    Attributes:
      max_versions: largest number of model versions that clients in flight use in the rounds that
        were yielded.
    """

    def __init__(self, plan: "Plan"):
        self.plan = plan
        self.max_versions = 1
        self._members: np.ndarray | None = None

    @property
    def members(self) -> np.ndarray:
        """Ids of clients that may take part: those drawn if all rounds are surveyed, else all."""
        if self._members is None:
            for _ in self.rounds():  # finds the members when it ends
                pass
        assert self._members is not None
        return self._members

    def rounds(self) -> Iterator[RoundPlan]:
        """Yield the first rounds, at most MAX_SURVEYED_ROUNDS; after the last, `members` is known.

        Where losses decide who is drawn, a bound takes the place of each round: no round has more
        steps or more samples.
        """
        plan = self.plan
        steps_of_buffer = max(MAX_SURVEYED_FLIGHTS // max(plan.timetable.buffer, 1), 1)
        surveyed = min(plan.rounds, MAX_SURVEYED_ROUNDS, steps_of_buffer)
        bound = largest_round(plan) if plan.cohort.feedback else None

        takes_part = np.zeros(plan.federation.N, bool)
        state = plan.begin()
        for r in range(1, surveyed + 1):
            if bound is None:
                work, state = plan.round(r, state)
                if plan.timetable.steps is not None:
                    versions = plan.timetable.steps.versions_in_flight(state)
                    self.max_versions = max(self.max_versions, len(versions))
            else:
                work = bound._replace(round=r)
            takes_part[work.ids] = True
            yield work

        saw_every_round = plan.rounds <= surveyed and bound is None
        if plan.network is not None:  # every node of a graph mixes, also one without samples
            self._members = np.arange(plan.federation.N)
        elif saw_every_round:
            self._members = np.flatnonzero(takes_part)
        else:
            self._members = plan.eligible


def largest_round(plan: "Plan") -> RoundPlan:
    """Return a round with the most steps and the most samples that a cohort can have.

    Its clients have the most steps; its sample counts may be those of other clients.
    """
    K = min(plan.nominal, len(plan.eligible))
    by_steps = np.argsort(-plan.steps[plan.eligible], kind="stable")
    ids = plan.eligible[by_steps[:K]]
    participants = Participants(
        ids=ids,
        count=np.ones(K, np.int64),
        steps=plan.steps[ids],
        start=np.zeros(K, np.int64),
        draw=np.ones(K, np.int64),
    )
    seconds = float(plan.seconds[ids].max(initial=0))
    work = plan.work_in(1, participants, plan.local.lr(1), seconds)

    falling_sizes = np.sort(plan.sizes[plan.eligible])[::-1]
    return work._replace(samples=falling_sizes[:K])
