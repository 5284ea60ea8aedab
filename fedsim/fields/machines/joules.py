"""The energy that clients take: for local steps, and for the bytes of messages."""

import numpy as np

from fedsim.engine.meters.meter import Columns, Meter, Since
from fedsim.engine.meters.traffic import Traffic
from fedsim.engine.records import DispatchedRound


class Joules(Meter):
    """Counts the local steps of each client, also those that did not count.

    Args:
      traffic: has counted the bytes.
      per_step: joules of a local step.
      per_byte: joules of a byte, sent or received.

    Attributes:
      steps: of each client `[N]`.
    """

    stored = ("steps",)

    def __init__(self, traffic: Traffic, per_step: float, per_byte: float):
        self.traffic = traffic
        self.per_step = per_step
        self.per_byte = per_byte
        self.steps = np.zeros_like(traffic.joined)

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Count a round."""
        cohort = dispatched.cohort
        np.add.at(self.steps, cohort.ids, cohort.steps)
        if cohort.uncounted is not None:
            np.add.at(self.steps, cohort.uncounted.ids, cohort.uncounted.steps)

    def row(self, round: int, since: Since) -> Columns:
        """Return what all clients have taken."""
        sent = self.traffic.totals["bytes_up"] + self.traffic.totals["bytes_down"]
        return {"joules": float(self.per_step * self.steps.sum() + self.per_byte * sent)}

    def of_clients(self, listed: np.ndarray) -> dict[str, list]:
        """Return what each client has taken."""
        of_client = self.traffic.of_clients(listed)
        sent = np.array(of_client["bytes_up"]) + np.array(of_client["bytes_down"])
        return {"joules": (self.per_step * self.steps[listed] + self.per_byte * sent).tolist()}
