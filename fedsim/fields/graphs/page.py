"""The graph of a run without a server: its nodes on a circle, and its spectral gap."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.errors import ScenarioError
from fedsim.fields.graphs.section import first_graph
from fedsim.fields.graphs.setting import topology_call
from fedsim.fields.graphs.topology import MixingMatrix, gap_of
from fedsim.report.figures.drawing import COLOURS, GREY, style
from fedsim.report.figures.on_page import page_axes
from fedsim.report.page.added import Map

SIZE = 360  # units of the picture's sides
RADIUS = 150.0
LARGEST_DOT = 12.0  # pixels across
MAX_NODES = 200  # that are drawn
MAX_EDGES = 2000


def draw(scenario: Mapping[str, Any], partition: pd.DataFrame | None) -> Map | None:
    """The graph of the first seed's first round.

    Args:
      partition: the columns of `partition.csv`, which lists all clients; None where there is none.

    Returns:
      None for clients with a server, and where the graph cannot be drawn again.
    """
    topology = scenario.get("topology")
    if not topology or partition is None:
        return None
    nodes = len(set(partition["client"]))
    try:
        matrix = first_graph(topology, nodes, scenario["seeds"][0])
    except ScenarioError:  # without networkx, say
        return None
    edges = _edges(matrix)
    picture = None
    if nodes <= MAX_NODES and len(edges) <= MAX_EDGES:
        picture = _picture(matrix, edges)
    return Map("Who hears whom", picture, _caption(topology, matrix, edges))


def _edges(matrix: MixingMatrix) -> np.ndarray:
    """Return the pairs of nodes that hear each other, in either direction `[E, 2]`."""
    ends = np.stack([matrix.source, matrix.target], axis=1)
    return np.unique(np.sort(ends, axis=1), axis=0)


def _caption(topology: Mapping[str, Any], matrix: MixingMatrix, edges: np.ndarray) -> str:
    heard = np.bincount(matrix.target, minlength=matrix.nodes)
    degrees = f"{heard.min():,}"
    if heard.max() > heard.min():
        degrees += f" to {heard.max():,}"
    numbers = f"{matrix.nodes:,} clients, {len(edges):,} connections, {degrees} each"
    text = f"{topology_call(topology)}: {numbers}"
    gap = gap_of(matrix)
    if gap is not None:
        text += f"; spectral gap {gap:.4g}"
    return text


def _picture(matrix: MixingMatrix, edges: np.ndarray) -> Markup:
    """The nodes on a circle in the order of ids, the first one at the top."""
    from fedsim.report.figures.inline import PAGE_STYLE, inline, tag

    angle = 2 * np.pi * np.arange(matrix.nodes) / matrix.nodes
    x = np.sin(angle)
    y = np.cos(angle)
    apart = np.full(len(edges), np.nan)  # between two edges
    lines = [np.column_stack([at[edges], apart]).ravel() for at in (x, y)]
    size = max(min(LARGEST_DOT, 5 * RADIUS / matrix.nodes), 3.0)
    with style(PAGE_STYLE):
        axes = page_axes((SIZE, SIZE), bottom=14, left=14)
        axes.set_axis_off()
        axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))
        axes.plot(*lines, color=GREY, alpha=0.4, lw=1)
        for node in range(matrix.nodes):
            (dot,) = axes.plot(x[node], y[node], "o", ms=size, mew=0, color=COLOURS[0])
            tag(dot, "node", title=f"node {node}")
        label = f"The graph: {matrix.nodes} nodes on a circle and the edges between them"
        look = {"width": str(SIZE), "height": str(SIZE)}
        return inline(axes.figure, label, **look)  # pyright: ignore
