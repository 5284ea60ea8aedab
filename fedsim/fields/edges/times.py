"""The clocks of edges: each waits for its own clients, and the cloud waits for all edges."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fedsim.fleet.round_plan import RoundPlan

if TYPE_CHECKING:
    from fedsim.fleet import Plan


class EdgeTimes(NamedTuple):
    """When edges begin their rounds.

    Attributes:
      edge_of: the edge of every client.
      every: rounds from one of the cloud to the next.
      cloud_seconds: what an edge's message to the cloud and the answer take.
    """

    edge_of: Int[np.ndarray, " N"]
    every: int
    cloud_seconds: float

    @property
    def edges(self) -> int:
        """The number of edges."""
        return int(self.edge_of.max()) + 1

    def next_start(
        self,
        r: int,
        begins: Float[np.ndarray, " k"],
        ids: Int[np.ndarray, " K"],
        seconds: Float[np.ndarray, " K"],
    ) -> Float[np.ndarray, " k"]:
        """Return when each edge can begin its next round.

        An edge without a client in the round goes on at once.

        Args:
          ids: clients whom the edges wait for.
        """
        length = np.zeros_like(begins)
        np.maximum.at(length, self.edge_of[ids], seconds)
        after = begins + length
        if r % self.every == 0:
            after = np.full_like(after, after.max() + self.cloud_seconds)
        return after


class WaitingEdges:
    """Edges: each waits for its own clients until the end of a round, and for the cloud."""

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
