"""Which model every client trained, and when that changed; of servers with several models."""

import numpy as np

from fedsim.disk.checkpoint import restore_tree

NONE = -1  # of a client that has not taken part


class Moves:
    """The model of every client, and its changes in the order of rounds.

    Args:
      clients: N.

    Attributes:
      cluster: the number of the model that each client trained last `[N]`.
      changes: round, client and model `[3, n]`, where a client trained another model than before.
    """

    def __init__(self, clients: int):
        self.cluster = np.full(clients, NONE, np.int32)
        self.changes = np.zeros((3, 0), np.int32)

    def add(self, round: int, ids: np.ndarray, cluster: np.ndarray) -> None:
        """Add a round: the clients that took part `[K]`, and the model of each."""
        changed = self.cluster[ids] != cluster
        rounds = np.full(int(changed.sum()), round, np.int32)
        new = np.stack([rounds, ids[changed], cluster[changed]]).astype(np.int32)
        self.changes = np.concatenate([self.changes, new], axis=1)
        self.cluster[ids] = cluster

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint stores."""
        return {"cluster": self.cluster, "cluster_changes": self.changes}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Resume from what `arrays` returned."""
        self.cluster = restore_tree("cluster", arrays, self.cluster).copy()
        self.changes = np.array(arrays["cluster_changes"])
