"""Random graphs, drawn by networkx; the run's seed decides them."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Le

from fedsim.compose import topology
from fedsim.errors import TopologyError
from fedsim.fields.graphs.topology.graphs import Draw, Edges, Topology, both_ways, one_way

Probability = Annotated[float, Ge(0), Le(1)]


@topology
def erdos_renyi(p: Annotated[float, Gt(0), Le(1)]) -> Topology:
    """Every pair of nodes has an edge with probability p.

    It is likely connected where p is well above ln n / n. With `directed: true`, each of the two
    directions is drawn by itself.

    Args:
      p: the probability of an edge.

    References:
      Erdős and Rényi 1959, On Random Graphs I.
    """

    def edges(draw: Draw) -> Edges:
        graph = _networkx().gnp_random_graph(
            draw.nodes, p, seed=_seed(draw), directed=draw.directed
        )
        return one_way(_edges(graph)) if draw.directed else both_ways(_edges(graph))

    return Topology(edges, random=True)


@topology
def regular(degree: Annotated[int, Ge(1)]) -> Topology:
    """A random graph in which every node hears equally many.

    Args:
      degree: d, below n; n · d is even.

    References:
      Steger and Wormald 1999, Generating Random Regular Graphs Quickly.
    """

    def graph(draw: Draw) -> Any:
        if degree >= draw.nodes:
            text = f"is {degree}, and {draw.nodes} nodes have at most {draw.nodes - 1} neighbours"
            raise TopologyError("degree", f"{text}; lower it, or raise data.clients")
        if degree * draw.nodes % 2:
            text = f"{draw.nodes} nodes of degree {degree} would have half an edge"
            raise TopologyError("degree", f"{text}; make one of the two numbers even")
        return _networkx().random_regular_graph(degree, draw.nodes, seed=_seed(draw))

    return _undirected(graph)


@topology
def watts_strogatz(k: Annotated[int, Ge(2)] = 4, p: Probability = 0.1) -> Topology:
    """A ring of k nearest neighbours, some of whose edges lead elsewhere: a small world.

    Args:
      k: neighbours of a node on the ring, at most n.
      p: the probability that an edge leads to a node drawn at random.

    References:
      Watts and Strogatz 1998, Collective Dynamics of Small-World Networks.
    """

    def graph(draw: Draw) -> Any:
        if k > draw.nodes:
            text = f"is {k}, and there are {draw.nodes} nodes"
            raise TopologyError("k", f"{text}; lower it, or raise data.clients")
        return _networkx().watts_strogatz_graph(draw.nodes, k, p, seed=_seed(draw))

    return _undirected(graph)


@topology
def barabasi_albert(m: Annotated[int, Ge(1)] = 2) -> Topology:
    """Nodes come one by one, each with m edges, more often to nodes that have many: few hubs.

    Args:
      m: edges of a new node, below n.

    References:
      Barabási and Albert 1999, Emergence of Scaling in Random Networks.
    """

    def graph(draw: Draw) -> Any:
        if m >= draw.nodes:
            text = f"is {m}, and there are {draw.nodes} nodes"
            raise TopologyError("m", f"{text}; lower it, or raise data.clients")
        return _networkx().barabasi_albert_graph(draw.nodes, m, seed=_seed(draw))

    return _undirected(graph)


def _undirected(graph: Callable[[Draw], Any]) -> Topology:
    """Return a topology from (draw) -> a graph of networkx."""
    return Topology(lambda draw: both_ways(_edges(graph(draw))), random=True)


def _edges(graph: Any) -> np.ndarray:
    """Return the edges of a graph of networkx `[E, 2]`."""
    return np.array(graph.edges, np.int64).reshape(-1, 2)


def _seed(draw: Draw) -> int:
    return int(draw.rng.integers(2**32))


def _networkx() -> Any:
    try:
        import networkx
    except ImportError:
        text = "random graphs need networkx: pip install 'fedsim-jax[graphs]'"
        raise TopologyError("kind", text) from None
    return networkx
