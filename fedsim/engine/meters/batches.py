"""Poisson batches that are cut."""

from fedsim.engine.meters.meter import Meter, Since
from fedsim.engine.records import DispatchedRound
from fedsim.fleet import Plan, RoundPlan
from fedsim.fleet.local import poisson_sizes
from fedsim.fleet.streams import Draws, Stream


class CutBatches(Meter):
    """Counts Poisson batches that were cut at the cap."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.draws = Draws(plan.seed, Stream.BATCHES)  # others use the plan's at the same time

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        since.report({"batches_cut": self.cut_batches(dispatched.cohort)})

    def cut_batches(self, work: RoundPlan) -> int:
        """Return how many batches of a round's clients were cut."""
        local = self.plan.local
        if local.cap is None:
            return 0
        cut = 0
        jobs = zip(work.ids.tolist(), work.steps.tolist(), work.draw.tolist(), strict=True)
        for client, steps, draw in jobs:
            # As the plan draws them: all that are planned, of which stragglers do the first.
            rng = self.draws.at(draw, client)
            planned = int(self.plan.steps[client])
            sizes = poisson_sizes(int(self.plan.sizes[client]), planned, local, rng)
            cut += int((sizes[:steps] > local.cap).sum())
        return cut
