"""A mixing as a table that a device works through, one row of edges after another."""

from typing import Any, NamedTuple

import numpy as np

from fedsim.fields.graphs.topology.weights import MixingMatrix


class Neighbourhoods(NamedTuple):
    """Whom each node hears; places beyond its neighbours have weight 0."""

    source: Any  # [n, S], rising
    weight: Any  # [n, S]
    own: Any  # [n]


class EdgeTable(NamedTuple):
    """Edges in rows: no row has two edges to the same node, so that its order makes no difference.

    Every node hears its neighbours in the order of their ids. A place without an edge has the
    target n.
    """

    source: Any  # [S, C]
    target: Any  # [S, C]
    weight: Any  # [S, C]
    own: Any  # [n]
    active: Any  # [n] whether a node takes part in the round
    mixes: Any  # whether nodes mix in the round
    near: Neighbourhoods | None = None  # where a rule looks at them


def shape_of(mixing: MixingMatrix) -> tuple[int, int]:
    """Return the rows and columns of a mixing's table: as many rows as a node hears at most."""
    heard = np.bincount(mixing.target, minlength=mixing.nodes)
    rows = max(int(heard.max()), 1)
    return rows, max(-(-len(mixing.target) // rows), 1)


def table_of(
    mixing: MixingMatrix,
    active: np.ndarray,
    shape: tuple[int, int],
    dtype: np.dtype,
    mixes: bool = True,
) -> EdgeTable:
    """Return a mixing as a table.

    The edges are laid column by column, those to a node one after another: they are in different
    rows, because a column is at least as long as there are edges to any node.

    Args:
      mixing: whose edges are in the order of their targets.
      active: whether each node takes part `[n]`.
      shape: rows and columns, at least those of `shape_of`.
    """
    rows, _ = shape
    place = np.arange(len(mixing.target))
    column = place // rows
    row = place % rows

    # The edges of a node that go on in the next column would come first there: in the order of
    # rows, its neighbours are given out anew.
    in_order = np.lexsort([row, mixing.target])
    row = row[in_order]
    column = column[in_order]

    source = np.zeros(shape, np.int32)
    target = np.full(shape, mixing.nodes, np.int32)
    weight = np.zeros(shape, dtype)
    source[row, column] = mixing.source
    target[row, column] = mixing.target
    weight[row, column] = mixing.weight
    return EdgeTable(
        source=source,
        target=target,
        weight=weight,
        own=mixing.own.astype(dtype),
        active=active,
        mixes=np.bool_(mixes),
    )


def neighbourhoods_of(mixing: MixingMatrix, most: int, dtype: np.dtype) -> Neighbourhoods:
    """Return whom each node hears.

    Args:
      mixing: whose edges are in the order of their targets.
      most: neighbours that any node hears, at most.
    """
    nodes = mixing.nodes
    heard = np.bincount(mixing.target, minlength=nodes)
    first = np.cumsum(heard) - heard
    place = np.arange(len(mixing.target)) - first[mixing.target]
    source = np.full((nodes, most), nodes, np.int32)
    weight = np.zeros((nodes, most), dtype)
    source[mixing.target, place] = mixing.source
    weight[mixing.target, place] = mixing.weight
    return Neighbourhoods(source, weight, own=mixing.own.astype(dtype))
