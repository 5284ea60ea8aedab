"""Who took part, and what the training reports."""

import numpy as np
from jaxtyping import Array

from fedsim.engine.meters.meter import Columns, Meter, Since
from fedsim.engine.records import DispatchedRound


class Training(Meter):
    """Counts the clients that were drawn and that reported, their losses, and lane steps."""

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Count a round, with what links report of it."""
        report = dispatched.report
        uncounted = dispatched.cohort.uncounted
        since.add(
            sampled=len(dispatched.cohort.ids) + (0 if uncounted is None else len(uncounted.ids)),
            reported=int(report.reported),
            nonfinite=int(report.nonfinite),
            skipped=int(report.skipped),
            useful=dispatched.steps,
            lane_steps=dispatched.lane_steps,
        )
        stats = dispatched.stats
        since.sums["loss"] = _continued_sum(since["loss"], [block.loss for block in stats])
        since.sums["seen"] = _continued_sum(since["seen"], [block.seen for block in stats])
        since.report(report.info)

    def row(self, round: int, since: Since) -> Columns:
        """Return the counts, and the mean loss over all rows that were trained on."""
        return {
            "clients_sampled": since["sampled"],
            "clients_reported": since["reported"],
            "n_nonfinite": since["nonfinite"],
            "skipped": since["skipped"],
            "train_loss": since["loss"] / since["seen"] if since["seen"] else None,
        }


def _continued_sum(total: float, blocks: list[Array]) -> float:
    """Return a float64 sum continued over blocks, slot after slot."""
    terms = [np.asarray(block, np.float64) for block in blocks]
    return float(np.cumsum(np.concatenate([[total], *terms]))[-1])
