"""A graph whose edges are written down."""

from typing import Annotated

import numpy as np
from annotated_types import MaxLen, MinLen

from fedsim.compose import topology
from fedsim.errors import TopologyError
from fedsim.fields.graphs.topology.graphs import Draw, Edges, Topology, both_ways, one_way
from fedsim.sources.files import Name
from fedsim.sources.traces import edges_of

Pair = Annotated[list[int], MinLen(2), MaxLen(2)]
Pairs = Annotated[list[Pair], MinLen(1)]


@topology
def listed(
    edges: Pairs | None = None, path: Name | None = None, sha256: str | None = None
) -> Topology:
    """The edges of a list, in the scenario or in a file.

    The file is a CSV with the columns `source` and `target` in its header and a row for each edge.

    Args:
      edges: pairs of nodes, `[[0, 1], [1, 2]]`; with `directed: true`, [a, b] says that b hears a.
      path: a file to use instead of `edges`, plain or gzipped, in the scenario's folder, the
        working directory or a `--data-root`; files elsewhere are not read.
      sha256: hash of the file; any other file is refused (filled in by the resolved scenario).

    Raises:
      DataError: if the file is not such a table; names the file and the lines.

    References:
      No paper: your own graph.
    """
    if (edges is None) == (path is None):
        given = "neither" if path is None else "both"
        text = f"edges are listed in edges or in the file at path, found {given}"
        raise ValueError(f"{text}; write one of them")
    if path is not None:
        pairs = edges_of(path, sha256)
    else:
        pairs = np.asarray(edges, np.int64)
    where = "edges" if path is None else "path"

    def listed_edges(draw: Draw) -> Edges:
        beyond = ((pairs < 0) | (pairs >= draw.nodes)).any(axis=1)
        if beyond.any():
            a, b = pairs[beyond][0].tolist()
            text = f"[{a}, {b}] names a node that does not exist"
            remedy = f"nodes are 0 to {draw.nodes - 1} (data.clients)"
            raise TopologyError(where, f"{text}; {remedy}")
        to_itself = pairs[:, 0] == pairs[:, 1]
        if to_itself.any():
            a, b = pairs[to_itself][0].tolist()
            text = f"[{a}, {b}] is no edge, a node always hears itself"
            raise TopologyError(where, f"{text}; remove it")
        return one_way(pairs) if draw.directed else both_ways(pairs)

    return Topology(listed_edges)
