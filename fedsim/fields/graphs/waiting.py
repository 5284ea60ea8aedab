"""Nodes of a graph go on by themselves: each waits for those whom it hears."""

import numpy as np
from jaxtyping import Float

from fedsim.fields.graphs.network import Network, active_nodes
from fedsim.fleet import Plan, RoundPlan


class WaitingNodes:
    """Nodes of a graph: each waits for those whom it hears."""

    name = "nodes"

    def __init__(self, network: Network):
        self.network = network

    def begin(self) -> Float[np.ndarray, " n"]:
        """Return when each node can begin round 1."""
        return np.zeros(self.network.nodes)

    def next_start(
        self, plan: Plan, work: RoundPlan, ids: np.ndarray, begins: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """Return when each node can begin its next round, as `Waiting`."""
        active = active_nodes(plan, work)
        if not active.any():
            return begins + work.seconds
        seconds = plan.seconds
        if not self.network.mixes(work.round):  # nothing is sent
            seconds = plan.steps * plan.machines.speed.step
        done = np.where(active, begins + seconds, begins)
        return self.network.next_start(work.round, active, done)


def waiting_nodes(network: Network, plan: Plan) -> list[WaitingNodes]:
    """Return the nodes, unless all take equally long in every round: then none waits."""
    unequal = bool(np.ptp(plan.seconds)) or network.settings.every > 1
    return [WaitingNodes(network)] if unequal else []
