"""Which model every client trained, and when that changed; of servers with several models."""

import numpy as np

from fedsim.data import Federation
from fedsim.disk.checkpoint import Snapshot, restore_tree
from fedsim.engine.meters.meter import Meter, Since
from fedsim.engine.models import NONE
from fedsim.engine.records import DispatchedRound
from fedsim.engine.scoring.scorer import Moment
from fedsim.fields.clusters.bank import GROUPS

GROUPED = "skew/concept_shift"  # the skew that divides the clients into groups


class Moves(Meter):
    """The model of every client, and its changes in the order of rounds.

    Attributes:
      cluster: the number of the model that each client trained last `[N]`.
      cluster_changes: round, client and model `[3, n]`, where a client trained another model than
        before.
    """

    stored = ("cluster", "cluster_changes")

    def __init__(self, federation: Federation):
        self.names = federation.client_names
        self.cluster = np.full(federation.N, NONE, np.int32)
        self.cluster_changes = np.zeros((3, 0), np.int32)

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Note which models the clients of a round trained."""
        ids = dispatched.cohort.ids
        groups = dispatched.server.state.get(GROUPS)
        if groups is not None:
            cluster = np.asarray(groups.cluster)[ids]
        else:
            by_block = [np.asarray(block) for block in dispatched.choices]
            cluster = np.concatenate(by_block)[: len(ids)]

        changed = self.cluster[ids] != cluster
        rounds = np.full(int(changed.sum()), dispatched.cohort.round, np.int32)
        new = np.stack([rounds, ids[changed], cluster[changed]]).astype(np.int32)
        self.cluster_changes = np.concatenate([self.cluster_changes, new], axis=1)
        self.cluster[ids] = cluster

    def at_end(self, end: Moment, listed: np.ndarray) -> dict[str, list]:
        """Return the number of every client's model, and its group where the data have some."""
        if end.choices is None:
            return {}
        numbers = end.choices[listed].tolist()
        columns = {"cluster": [None if number == NONE else number for number in numbers]}
        groups = end.federation.skews.get(GROUPED)
        if groups is not None:
            columns["group"] = groups[listed].astype(int).tolist()
        return columns

    def tables(self) -> dict[str, dict[str, list]]:
        """Return `clusters.csv`."""
        rounds, clients, clusters = self.cluster_changes
        columns = {
            "round": rounds.tolist(),
            "client": self.names[clients].tolist(),
            "cluster": clusters.tolist(),
        }
        return {"clusters": columns}

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from a checkpoint, which has any number of changes."""
        self.cluster = restore_tree("cluster", snapshot.arrays, self.cluster).copy()
        self.cluster_changes = np.array(snapshot.arrays["cluster_changes"])
