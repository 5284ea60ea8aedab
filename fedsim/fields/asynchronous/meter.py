"""How old the models are from which the clients of an asynchronous server start."""

import numpy as np

from fedsim.disk.checkpoint import Snapshot
from fedsim.engine.meters.meter import Columns, Meter, Since
from fedsim.engine.records import DispatchedRound


class Ages(Meter):
    """Counts messages by their age: steps of the server since their model was sent."""

    stored = ("ages",)

    def __init__(self) -> None:
        self.ages = np.zeros(1, np.int64)

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Count a round."""
        cohort = dispatched.cohort
        age = cohort.age
        counts = np.bincount(age[cohort.weight > 0], minlength=len(self.ages))
        counts[: len(self.ages)] += self.ages
        self.ages = counts
        since.columns |= staleness(age)

    def tables(self) -> dict[str, dict[str, list]]:
        """Return `staleness.csv`."""
        ages = np.flatnonzero(self.ages)
        return {"staleness": {"age": ages.tolist(), "messages": self.ages[ages].tolist()}}

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from a checkpoint, whose oldest message is of any age."""
        self.ages = np.array(snapshot.arrays["ages"])


def staleness(age: np.ndarray) -> Columns:
    """Return the columns of a round of messages of these ages `[K]`; empty in an empty window."""
    if not len(age):
        return {"staleness_mean": None, "staleness_max": None}
    return {"staleness_mean": float(age.mean()), "staleness_max": int(age.max())}
