"""Confusion matrices as a figure."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from fedsim.fields.metrics.confusion import PANELS, TITLE, Matrix, about, matrices_of
from fedsim.fields.metrics.pictures import draw_small
from fedsim.report.context import Context
from fedsim.report.figures.drawing import sheet, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIGH = 1.9  # inches of a matrix
LEFT = 0.9
GAP = 0.75
RIGHT = 0.5
ON_A_PAGE = 3


def figures(
    frames: Mapping[str, pd.DataFrame], context: Context
) -> Iterator[tuple[str, list["Figure"]]]:
    """Yield the figure `confusion`, where there is its table."""
    table = frames.get("confusion")
    if table is None or not len(table):
        return
    methods = context.ordered(list(map(str, table["method"].unique())))
    matrices = matrices_of(table, methods)[:PANELS]
    pages = [matrices[first : first + ON_A_PAGE] for first in range(0, len(matrices), ON_A_PAGE)]
    yield "confusion", [_figure(page, context.title, f"{TITLE}; {about(table)}") for page in pages]


def _figure(page: list[Matrix], title: str, note: str) -> "Figure":
    with style():
        heights = [HIGH] * len(page)
        figure, all_axes = sheet(title, note, heights, foot=GAP, left=LEFT, right=RIGHT, gap=GAP)
        for axes, matrix in zip(all_axes, page, strict=True):
            draw_small(axes, matrix)
        return figure
