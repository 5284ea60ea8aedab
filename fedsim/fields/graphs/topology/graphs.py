"""Graphs: who hears whom, as an array of edges."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from fedsim.errors import TopologyError

Edges = Int[np.ndarray, "E 2"]
"""(from, to): node `to` hears node `from`; rising by `to`, then by `from`."""

SHOWN = 8  # nodes of a part that a message names


class Draw(NamedTuple):
    """What a graph is drawn from.

    Attributes:
      nodes: n; nodes are 0 … n − 1.
      directed: whether edges are directed, where the kind has directed edges.
      round: the round, from 0.
      rng: of the seed, and of the graph where it is drawn again and again.
    """

    nodes: int
    directed: bool
    round: int
    rng: np.random.Generator


class Topology(NamedTuple):
    """A way to draw a graph.

    Attributes:
      edges: draw -> its edges.
      random: whether the edges depend on `Draw.rng`.
      period: rounds after which the edges are those of `Draw.round` 0 again, by the number of
        nodes; None: they do not depend on the round.
      one_way: whether edges are always directed.
    """

    edges: Callable[[Draw], Edges]
    random: bool = False
    period: Callable[[int], int] | None = None
    one_way: bool = False


def both_ways(edges: np.ndarray) -> Edges:
    """Return undirected edges `[E, 2]` in both directions."""
    return one_way(np.concatenate([edges, edges[:, ::-1]]))


def one_way(edges: np.ndarray) -> Edges:
    """Return edges in order, each once, without those from a node to itself."""
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    edges = edges[edges[:, 0] != edges[:, 1]]
    by_target = np.unique(edges[:, ::-1], axis=0)
    return by_target[:, ::-1]


def require_connected(edges: Edges, nodes: int) -> None:
    """Refuse a graph in which some node never hears of another.

    Args:
      edges: of the graph, or of all graphs of a run together.

    Raises:
      TopologyError: naming the nodes of the smallest part.
    """
    from scipy.sparse import coo_array  # takes a tenth of a second to import
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(edges), bool)
    adjacency = coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    parts, part_of = connected_components(adjacency.tocsr(), connection="strong")
    if parts == 1:
        return
    smallest = np.argmin(np.bincount(part_of))
    members = np.flatnonzero(part_of == smallest)
    named = ", ".join(map(str, members[:SHOWN].tolist()))
    if len(members) > SHOWN:
        named += ", ..."
    noun = "node" if len(members) == 1 else "nodes"
    text = (
        f"the graph is not connected: it has {parts} parts that do not hear of each other, "
        f"one of them {noun} {named}; add edges, or choose another seed or kind"
    )
    raise TopologyError("kind", text)
