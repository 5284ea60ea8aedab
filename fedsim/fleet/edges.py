"""The clocks of edges: each waits for its own clients, and the cloud waits for all edges."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


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
          r: the round.
          begins: when each edge begins it.
          ids: clients whom the edges wait for.
          seconds: how long each takes.
        """
        length = np.zeros_like(begins)
        np.maximum.at(length, self.edge_of[ids], seconds)
        after = begins + length
        if r % self.every == 0:
            after = np.full_like(after, after.max() + self.cloud_seconds)
        return after
