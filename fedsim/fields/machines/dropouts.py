"""Clients that a round drew and did not count: late ones, and those that left."""

import numpy as np

from fedsim.engine.meters.meter import Meter, Since
from fedsim.engine.meters.traffic import Traffic
from fedsim.engine.records import DispatchedRound

COLUMNS = ("clients_late", "clients_left", "steps_wasted", "bytes_wasted")


class Dropouts(Meter):
    """Counts the clients that a fleet leaves out, and their work.

    Attributes:
      late: rounds in which each client was late `[N]`.
      left: rounds in which each client left `[N]`.
    """

    stored = ("late", "left")

    def __init__(self, traffic: Traffic):
        self.traffic = traffic
        self.late = np.zeros_like(traffic.joined)
        self.left = np.zeros_like(traffic.joined)

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Count a round."""
        uncounted = dispatched.cohort.uncounted
        if uncounted is None:
            since.report(dict.fromkeys(COLUMNS, 0))
            return
        np.add.at(self.late, uncounted.ids[uncounted.late], 1)
        np.add.at(self.left, uncounted.ids[uncounted.left], 1)
        numbers = (
            uncounted.late.sum(),
            uncounted.left.sum(),
            uncounted.steps.sum(),
            self.traffic.bytes_wasted,
        )
        since.report(dict(zip(COLUMNS, numbers, strict=True)))

    def of_clients(self, listed: np.ndarray) -> dict[str, list]:
        """Return how often clients were drawn, late, and away before the end."""
        late = self.late[listed]
        left = self.left[listed]
        return {
            "rounds_offered": (self.traffic.joined[listed] + late + left).tolist(),
            "rounds_late": late.tolist(),
            "rounds_left": left.tolist(),
        }
