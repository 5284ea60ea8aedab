"""The mixing matrix of a graph, by its edges: x_i ← Σ_j W_ij x_j."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedsim.errors import TopologyError
from fedsim.fields.graphs.topology.graphs import Edges

Weights = Literal["metropolis", "max_degree", "uniform"]


class MixingMatrix(NamedTuple):
    """A mixing matrix W in float64; entries beside these are 0.

    Attributes:
      source: j of every edge `[E]`.
      target: i, likewise; rising, and by `source` where equal.
      weight: W_ij, likewise.
      own: W_ii `[n]`.
    """

    source: Int[np.ndarray, " E"]
    target: Int[np.ndarray, " E"]
    weight: Float[np.ndarray, " E"]
    own: Float[np.ndarray, " n"]

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.own)


def mixing_of(edges: Edges, nodes: int, weights: Weights | None) -> MixingMatrix:
    """Return the mixing matrix of a graph.

    `metropolis` is W_ij = 1/(1 + max(d_i, d_j)), `max_degree` I − L/(d_max + 1), `uniform`
    1/(d_i + 1), where d counts a node's neighbours. Directed edges have W_ij = 1/(d_j + 1), where d
    counts the nodes that hear j: a node hands out equal parts to them and to itself.

    Args:
      weights: of a graph whose edges are undirected, rows and columns of which add up to one; None:
        of directed edges, whose columns do.

    Raises:
      TopologyError: for `uniform` where degrees differ.
    """
    source, target = edges.T
    heard_by = np.bincount(source, minlength=nodes)
    if weights is None:
        parts = 1.0 / (heard_by + 1)
        return MixingMatrix(source, target, parts[source], own=parts)

    degree = heard_by
    if weights == "uniform" and degree.min() != degree.max():
        text = f"uniform needs a regular graph, and degrees are {degree.min()} to {degree.max()}"
        raise TopologyError("weights", f"{text}; write metropolis or max_degree")
    if weights == "metropolis":
        weight = 1.0 / (1 + np.maximum(degree[source], degree[target]))
    else:
        weight = np.full(len(edges), 1.0 / (1 + degree.max()))
    own = 1.0 - np.bincount(target, weight, minlength=nodes)
    return MixingMatrix(source, target, weight, own)


def without(mixing: MixingMatrix, lost: Bool[np.ndarray, " E"]) -> MixingMatrix:
    """Return a mixing without some of its edges, whose weights stay with those who would send.

    Columns still add up to one, and so do rows where edges are lost in both directions.
    """
    kept_at = mixing.source[lost]
    own = mixing.own + np.bincount(kept_at, mixing.weight[lost], minlength=mixing.nodes)
    return mixing._replace(weight=np.where(lost, 0.0, mixing.weight), own=own)
