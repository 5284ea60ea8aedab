"""Graphs that only the number of nodes decides."""

import math
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from fedsim.compose import topology
from fedsim.errors import TopologyError
from fedsim.fields.graphs.topology.graphs import Draw, Edges, Topology, both_ways, one_way

# Nodes at least: a ring of two would be one edge.
LEAST = 2


@topology
def ring() -> Topology:
    """A cycle: every node hears the two beside it; one-way, the one before it.

    Gap (`metropolis`): (2/3)(1 − cos 2π/n), n ≥ 3.

    References:
      Lian et al. 2017, Can Decentralized Algorithms Outperform Centralized Algorithms?,
      arXiv:1705.09056, Section 5 (their nodes are a ring).
    """

    def edges(draw: Draw) -> Edges:
        nodes = _enough(draw.nodes)
        node = np.arange(nodes)
        cycle = np.stack([node, (node + 1) % nodes], axis=1)
        return one_way(cycle) if draw.directed else both_ways(cycle)

    return Topology(edges)


@topology
def path() -> Topology:
    """A line: every node hears the one before it and the one after it.

    Gap (`metropolis`): (2/3)(1 − cos π/n), n ≥ 3.

    References:
      Nedić, Olshevsky, Rabbat 2018, Network Topology and Communication-Computation Tradeoffs in
      Decentralized Optimization, arXiv:1709.08765, Table 1.
    """

    def edges(draw: Draw) -> Edges:
        node = np.arange(_enough(draw.nodes) - 1)
        return both_ways(np.stack([node, node + 1], axis=1))

    return Topology(edges)


@topology
def grid(rows: Annotated[int, Ge(1)]) -> Topology:
    """A rectangle: every node hears those beside, above and below it.

    Node i is in row ⌊i / columns⌋.

    Args:
      rows: rows of the rectangle; they divide the number of nodes.

    References:
      Nedić, Olshevsky, Rabbat 2018, arXiv:1709.08765, Table 1.
    """

    def edges(draw: Draw) -> Edges:
        index = _rectangle(draw.nodes, rows)
        return both_ways(np.concatenate([_pairs(index), _pairs(index.T)]))

    return Topology(edges)


@topology
def torus(rows: Annotated[int, Ge(1)]) -> Topology:
    """A rectangle whose sides meet: every node hears four others, where both sides are 3 or more.

    Gap (`metropolis`, sides a and b): 1 − max over (j, k) ≠ 0 of |1 + 2cos 2πj/a + 2cos 2πk/b| / 5.

    Args:
      rows: rows of the rectangle; they divide the number of nodes.

    References:
      Nedić, Olshevsky, Rabbat 2018, arXiv:1709.08765, Table 1.
    """

    def edges(draw: Draw) -> Edges:
        index = _rectangle(draw.nodes, rows)
        below = np.concatenate([index, index[:1]])
        beside = np.concatenate([index, index[:, :1]], axis=1)
        return both_ways(np.concatenate([_pairs(beside), _pairs(below.T)]))

    return Topology(edges)


@topology
def star() -> Topology:
    """A hub, node 0, and all others, which hear it alone.

    Gap (`metropolis`): 1/n.

    References:
      Nedić, Olshevsky, Rabbat 2018, arXiv:1709.08765, Table 1.
    """

    def edges(draw: Draw) -> Edges:
        others = np.arange(1, _enough(draw.nodes))
        return both_ways(np.stack([np.zeros_like(others), others], axis=1))

    return Topology(edges)


@topology
def complete() -> Topology:
    """Every node hears every other: each mixing is the mean of all.

    Gap (`metropolis`): 1.    Cost: n(n − 1) models a round.

    References:
      Nedić, Olshevsky, Rabbat 2018, arXiv:1709.08765, Table 1.
    """

    def edges(draw: Draw) -> Edges:
        nodes = _enough(draw.nodes)
        return both_ways(np.stack(np.triu_indices(nodes, k=1), axis=1))

    return Topology(edges)


@topology
def hypercube() -> Topology:
    """Nodes whose numbers differ in one binary digit hear each other; n = 2^k.

    Gap (`metropolis`): 2/(k + 1).

    References:
      Nedić, Olshevsky, Rabbat 2018, arXiv:1709.08765, Table 1.
    """

    def edges(draw: Draw) -> Edges:
        nodes = _enough(draw.nodes)
        if nodes & (nodes - 1):
            text = f"hypercube needs 2, 4, 8, ... nodes, and there are {nodes}"
            raise TopologyError("kind", f"{text}; change data.clients, or use exponential")
        node = np.arange(nodes)
        edges = [np.stack([node, node ^ (1 << k)], axis=1) for k in range(_hops(nodes))]
        return both_ways(np.concatenate(edges))

    return Topology(edges)


@topology
def exponential(peers: Literal["all", "one"] = "all") -> Topology:
    """Node i hears i + 1, i + 2, i + 4, ... mod n: one-way, and doubly stochastic all the same.

    Every weight is 1/(⌈log₂ n⌉ + 1). With `peers: one`, a round has one of these hops, in turn,
    at weight ½; if n is a power of two, ⌈log₂ n⌉ rounds together are the mean of all.

    Args:
      peers: whether a node hears all of its peers in a round, or one.

    References:
      Assran et al. 2019, Stochastic Gradient Push, arXiv:1811.10792, Appendix A;
      Ying et al. 2021, Exponential Graph is Provably Efficient for Decentralized Deep Training,
      arXiv:2110.13363.
    """

    def edges(draw: Draw) -> Edges:
        nodes = _enough(draw.nodes)
        hops = range(_hops(nodes))
        if peers == "one":
            hops = [draw.round % len(hops)]
        node = np.arange(nodes)
        heard = [np.stack([(node + 2**k) % nodes, node], axis=1) for k in hops]
        return one_way(np.concatenate(heard))

    return Topology(edges, period=_hops if peers == "one" else None, one_way=True)


def _hops(nodes: int) -> int:
    """⌈log₂ n⌉."""
    return max(math.ceil(math.log2(nodes)), 1)


def _enough(nodes: int) -> int:
    if nodes < LEAST:
        text = f"a graph has at least {LEAST} nodes, and there is {nodes}"
        raise TopologyError("kind", f"{text}; raise data.clients")
    return nodes


def _rectangle(nodes: int, rows: int) -> np.ndarray:
    """Return the nodes as a rectangle `[rows, columns]`."""
    _enough(nodes)
    if nodes % rows:
        text = f"{rows} rows do not divide {nodes} nodes"
        raise TopologyError("rows", f"{text}; write a divisor of data.clients")
    return np.arange(nodes).reshape(rows, -1)


def _pairs(index: np.ndarray) -> np.ndarray:
    """Return neighbours along the rows of an array of nodes `[E, 2]`."""
    return np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
