"""What edges and their cloud send each other."""

from fedsim.engine.meters.meter import Columns, Meter, Since
from fedsim.engine.records import DispatchedRound
from fedsim.fields.edges.cloud import RECEIVED, SENT


class CloudTraffic(Meter):
    """Counts the bytes between edges and their cloud, which send whole models."""

    stored = ("cloud_totals",)

    def __init__(self, model_bytes: int):
        self.model_bytes = model_bytes
        self.cloud_totals = {"cloud_bytes_up": 0, "cloud_bytes_down": 0}

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Count a round."""
        info = dispatched.report.info
        self.cloud_totals["cloud_bytes_up"] += self.model_bytes * int(info[SENT])
        self.cloud_totals["cloud_bytes_down"] += self.model_bytes * int(info[RECEIVED])

    def row(self, round: int, since: Since) -> Columns:
        """Return the totals."""
        return dict(self.cloud_totals)
