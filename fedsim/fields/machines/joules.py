"""The energy that clients take: for local steps, and for the bytes of messages."""

import numpy as np

from fedsim.engine.meters.meter import Columns, Meter, Since
from fedsim.engine.meters.traffic import Traffic
from fedsim.engine.records import DispatchedRound


class Joules(Meter):
    """Counts the local steps of each client, also those that did not count.

    Args:
      per_step: joules of a local step, one number or one for each device; clients start over with
        the first device after the last.
      per_byte: joules of a byte, sent or received, likewise.

    Attributes:
      steps: of each client `[N]`.
    """

    stored = ("steps",)

    def __init__(self, traffic: Traffic, per_step: np.ndarray, per_byte: np.ndarray):
        self.traffic = traffic
        self.steps = np.zeros_like(traffic.joined)
        self.per_step = np.resize(per_step, self.steps.shape)
        self.per_byte = np.resize(per_byte, self.steps.shape)

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Count a round."""
        cohort = dispatched.cohort
        np.add.at(self.steps, cohort.ids, cohort.steps)
        if cohort.uncounted is not None:
            np.add.at(self.steps, cohort.uncounted.ids, cohort.uncounted.steps)

    def row(self, round: int, since: Since) -> Columns:
        """Return what all clients have taken."""
        return {"joules": float(self._taken(np.arange(len(self.steps))).sum())}

    def of_clients(self, listed: np.ndarray) -> dict[str, list]:
        """Return what each client has taken."""
        return {"joules": self._taken(listed).tolist()}

    def _taken(self, listed: np.ndarray) -> np.ndarray:
        of_client = self.traffic.of_clients(listed)
        sent = np.array(of_client["bytes_up"]) + np.array(of_client["bytes_down"])
        return self.per_step[listed] * self.steps[listed] + self.per_byte[listed] * sent
