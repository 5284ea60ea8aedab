"""A graph whose edges are written down."""

from typing import Annotated

import numpy as np
from annotated_types import MaxLen, MinLen

from fedsim.compose import topology
from fedsim.errors import TopologyError
from fedsim.topology.graphs import Draw, Links, Topology, both_ways, one_way

Edge = Annotated[list[int], MinLen(2), MaxLen(2)]


@topology
def listed(edges: Annotated[list[Edge], MinLen(1)]) -> Topology:
    """The edges of a list.

    Args:
      edges: pairs of nodes, `[[0, 1], [1, 2]]`; with `directed: true`, [a, b] says that b hears a.

    References:
      No paper: your own graph.
    """

    def links(draw: Draw) -> Links:
        pairs = np.asarray(edges, np.int64)
        for a, b in edges:
            if not (0 <= a < draw.nodes and 0 <= b < draw.nodes):
                text = f"[{a}, {b}] names a node that does not exist"
                remedy = f"nodes are 0 to {draw.nodes - 1} (data.clients)"
                raise TopologyError("edges", f"{text}; {remedy}")
            if a == b:
                text = f"[{a}, {b}] is no edge, a node always hears itself"
                raise TopologyError("edges", f"{text}; remove it")
        return one_way(pairs) if draw.directed else both_ways(pairs)

    return Topology(links)
