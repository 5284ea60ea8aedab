"""What privacy counts: ε of clients by round, and ε of samples by local steps."""

from collections.abc import Callable

import numpy as np

from fedsim.engine.meters.meter import Columns, Meter, Since
from fedsim.engine.records import DispatchedRound


class Epsilon(Meter):
    """Says which ε all rounds so far have spent."""

    def __init__(self, spent: Callable[[int], float]):
        self.spent = spent

    def row(self, round: int, since: Since) -> Columns:
        """Return ε."""
        return {"epsilon": self.spent(round)}


class SampleEpsilon(Meter):
    """Counts the local steps behind the messages of each client, on which ε of its samples depends.

    Args:
      spent: (steps, samples) of a client -> ε of its samples.

    Attributes:
      released: local steps behind the messages that each client sent `[N]`.
    """

    stored = ("released",)

    def __init__(self, spent: Callable[[int, int], float], sizes: np.ndarray):
        self.spent = spent
        self.sizes = sizes
        self.released = np.zeros(len(sizes), np.int64)

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Count a round, and the messages that it does not count."""
        cohort = dispatched.cohort
        np.add.at(self.released, cohort.ids, cohort.steps)
        uncounted = cohort.uncounted
        if uncounted is not None:
            np.add.at(self.released, uncounted.ids[uncounted.sent], uncounted.steps[uncounted.sent])

    def of_clients(self, listed: np.ndarray) -> dict[str, list]:
        """Return ε of the clients' samples; that of equal clients is computed once."""
        work = np.stack([self.released[listed], self.sizes[listed]], axis=1)  # [clients, 2]
        kinds, kind = np.unique(work, axis=0, return_inverse=True)
        spent = np.array([self.spent(steps, samples) for steps, samples in kinds.tolist()])
        return {"epsilon": spent[kind.reshape(-1)].tolist()}
