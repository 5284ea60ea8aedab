"""What the nodes of a graph send each other."""

import numpy as np

from fedsim.engine.meters.meter import Columns, Since
from fedsim.engine.meters.traffic import Traffic
from fedsim.engine.records import DispatchedRound
from fedsim.fields.graphs.network import Network, active_nodes


class Exchanges(Traffic):
    """Counts messages between the nodes of a graph: one for every edge of a round."""

    def count_messages(self, dispatched: DispatchedRound) -> None:
        """Count the messages of a round; nodes that are away send and receive nothing."""
        network = self.plan.network
        assert isinstance(network, Network)
        cohort = dispatched.cohort
        source, target = network.traffic(cohort.round, active_nodes(self.plan, cohort)).T
        size = np.asarray(dispatched.report.bytes, np.int64)[source]  # of each edge's message
        np.add.at(self.sent, source, size)
        np.add.at(self.downlink.received, target, size)
        self.totals["bytes_up"] += int(size.sum())
        self.totals["bytes_down"] += int(size.sum())

    def row(self, round: int, since: Since) -> Columns:
        """Return the totals, and that all nodes have one model before the first round."""
        return {**super().row(round, since), "consensus": 0.0}
