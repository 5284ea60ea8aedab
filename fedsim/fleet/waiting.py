"""Parts of a federation that go on by themselves: each begins its next round when it can.

A round ends when the last of them has ended it. What a plan remembers is when each can begin.
"""

from typing import TYPE_CHECKING, Protocol

import numpy as np
from jaxtyping import Float

from fedsim.fleet.edges import EdgeTimes
from fedsim.fleet.network import Network
from fedsim.fleet.round_plan import RoundPlan

if TYPE_CHECKING:
    from fedsim.fleet.plan import Plan


class Waiting(Protocol):
    """Parts with clocks of their own; `name` is that of the array in a plan's state."""

    name: str

    def begin(self) -> Float[np.ndarray, " parts"]:
        """Return when each part can begin round 1."""
        ...

    def next_start(
        self, plan: "Plan", work: RoundPlan, ids: np.ndarray, begins: Float[np.ndarray, " parts"]
    ) -> Float[np.ndarray, " parts"]:
        """Return when each part can begin its next round, in virtual seconds.

        Args:
          plan: the plan.
          work: the round, whose seconds are those of a server that waits for all.
          ids: clients that were drawn.
          begins: when each part begins the round.
        """
        ...


class WaitingNodes:
    """Nodes of a graph: each waits for those whom it hears.

    Args:
      network: the graph.
    """

    name = "nodes"

    def __init__(self, network: Network):
        self.network = network

    def begin(self) -> Float[np.ndarray, " n"]:
        """Return when each node can begin round 1."""
        return np.zeros(self.network.nodes)

    def next_start(
        self, plan: "Plan", work: RoundPlan, ids: np.ndarray, begins: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """Return when each node can begin its next round, as `Waiting`."""
        active = plan.active_nodes(work)
        if not active.any():
            return begins + work.seconds
        seconds = plan.seconds
        if not self.network.mixes(work.round):  # nothing is sent
            seconds = plan.steps * plan.machines.speed.step
        done = np.where(active, begins + seconds, begins)
        return self.network.next_start(work.round, active, done)


class WaitingEdges:
    """Edges: each waits for its own clients until the end of a server's round, and for the cloud.

    Args:
      times: the clocks of the edges.
    """

    name = "edges"

    def __init__(self, times: EdgeTimes):
        self.times = times

    def begin(self) -> Float[np.ndarray, " k"]:
        """Return when each edge can begin round 1."""
        return np.zeros(self.times.edges)

    def next_start(
        self, plan: "Plan", work: RoundPlan, ids: np.ndarray, begins: Float[np.ndarray, " k"]
    ) -> Float[np.ndarray, " k"]:
        """Return when each edge can begin its next round, as `Waiting`."""
        if not len(ids):  # a round in which nobody can be reached takes its time
            begins = begins + work.seconds
        of_clients = np.broadcast_to(plan.seconds, plan.federation.N)[ids]
        seconds = np.minimum(of_clients, work.seconds)
        return self.times.next_start(work.round, begins, ids, seconds)
