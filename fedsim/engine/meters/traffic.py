"""How often every client took part, what it sent and received, and how long that took."""

import numpy as np

from fedsim.disk.checkpoint import Snapshot
from fedsim.engine.downlink import Downlink
from fedsim.engine.meters.meter import Columns, Meter, Since
from fedsim.engine.records import DispatchedRound
from fedsim.fleet import Plan


class Traffic(Meter):
    """Counts messages between clients and their server, lost ones included.

    Attributes:
      joined: rounds in which each client took part `[N]`.
      sent: bytes that each client sent `[N]`.
      totals: columns that count from the start of the run.
      bytes_wasted: of the last round, to and from clients that it does not count.
    """

    stored = ("joined", "sent", "totals")

    def __init__(self, plan: Plan, downlink: Downlink):
        self.plan = plan
        self.downlink = downlink
        self.joined = np.zeros(plan.federation.N, np.int64)
        self.sent = np.zeros(plan.federation.N, np.int64)
        self.totals = {"virtual_seconds": 0.0, "bytes_up": 0, "bytes_down": 0}
        self.bytes_wasted = 0

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        self.totals["virtual_seconds"] += dispatched.cohort.seconds
        np.add.at(self.joined, dispatched.cohort.ids, 1)
        self.count_messages(dispatched)

    def count_messages(self, dispatched: DispatchedRound) -> None:
        """Count the messages of a round, also of those clients that it does not count."""
        cohort = dispatched.cohort
        sent = np.full(len(cohort.ids), dispatched.loss_bytes, np.int64)
        for by_slot in dispatched.sent_bytes:
            sent += np.asarray(by_slot, np.int64)[: len(cohort.ids)]
        np.add.at(self.sent, cohort.ids, sent)

        # The exact size of a message that does not count is unknown: take the largest one.
        uncounted = cohort.senders[len(cohort.ids) :]
        sent_in_vain = np.broadcast_to(self.plan.cost.up, len(self.sent))[uncounted]
        np.add.at(self.sent, uncounted, sent_in_vain)

        size = None if dispatched.received_bytes is None else int(dispatched.received_bytes)
        received = self.downlink.deliver(cohort.receivers, size)
        self.downlink.after(dispatched.report.info)

        self.totals["bytes_up"] += int(sent.sum()) + int(sent_in_vain.sum())
        self.totals["bytes_down"] += int(received.sum())
        received_in_vain = received[len(cohort.ids) :]
        self.bytes_wasted = int(received_in_vain.sum()) + int(sent_in_vain.sum())

    def row(self, round: int, since: Since) -> Columns:
        return dict(self.totals)

    def of_clients(self, listed: np.ndarray) -> dict[str, list]:
        return {
            "rounds_joined": self.joined[listed].tolist(),
            "bytes_up": self.sent[listed].tolist(),
            "bytes_down": self.downlink.received[listed].tolist(),
        }

    def snapshot(self) -> Snapshot:
        values, arrays = super().snapshot()
        return Snapshot(values, {**arrays, **self.downlink.arrays()})

    def restore(self, snapshot: Snapshot) -> None:
        super().restore(snapshot)
        self.downlink.restore(snapshot.arrays)


class Pooled(Traffic):
    """Leaves the columns of clients empty, whose samples are pooled and who take no part."""

    def row(self, round: int, since: Since) -> Columns:
        """Return the empty columns, those of `Training` among them."""
        return dict.fromkeys((*self.totals, "clients_sampled", "clients_reported"))

    def of_clients(self, listed: np.ndarray) -> dict[str, list]:
        return {}
