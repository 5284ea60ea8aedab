"""How far two ways to divide the same clients agree."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedsim.disk.tables import Record


def columns(tables: Mapping[str, Sequence[Record]], scenario: Record) -> Record:
    """Return how far the clusters are the groups that the data have: a column of `summary.csv`."""
    (clients,) = tables["clients"]
    if "cluster" not in clients or "group" not in clients:
        return {}
    clusters = []
    groups = []
    for cluster, group in zip(clients["cluster"], clients["group"], strict=True):
        if cluster is not None:
            clusters.append(cluster)
            groups.append(group)
    return {"adjusted_rand": adjusted_rand(np.array(clusters), np.array(groups))}


def adjusted_rand(one: np.ndarray, other: np.ndarray) -> float:
    """Return the adjusted Rand index of two divisions: 1 if they are the same, about 0 by chance.

    Args:
      one: the part of every client `[n]`.
      other: its part in the other division `[n]`.

    References:
      Hubert, Arabie 1985, Comparing Partitions, equation 5.
    """
    _, rows = np.unique(one, return_inverse=True)
    _, columns = np.unique(other, return_inverse=True)
    table = np.zeros((rows.max(initial=0) + 1, columns.max(initial=0) + 1))
    np.add.at(table, (rows, columns), 1)

    together = _pairs(table).sum()
    in_one = _pairs(table.sum(axis=1)).sum()
    in_other = _pairs(table.sum(axis=0)).sum()
    by_chance = in_one * in_other / max(_pairs(np.array(float(len(one)))), 1)
    most = (in_one + in_other) / 2
    if most == by_chance:  # a single part in both, or each client alone in both
        return 1.0
    return float((together - by_chance) / (most - by_chance))


def _pairs(counts: np.ndarray) -> np.ndarray:
    """Return the numbers of pairs among so many."""
    return counts * (counts - 1) / 2
