"""What machines count: clients that a round drew and lost, and the energy that all of them take."""

import numpy as np

from fedsim.engine.meters.meter import Columns, Meter, Since
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
