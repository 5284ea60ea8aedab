"""Kaplan-Meier curves of the clients, as a figure."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from fedsim.fields.survival.lines import AXIS, TITLE, steps_of
from fedsim.report.context import Context
from fedsim.report.figures import marks
from fedsim.report.figures.drawing import FOOT, sheet, style
from fedsim.report.pictures.looks import STRONG

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIGH = 1.75  # inches of the axes


def figures(
    frames: Mapping[str, pd.DataFrame], context: Context
) -> Iterator[tuple[str, list["Figure"]]]:
    """Yield the figure `survival`, where there is its table."""
    table = frames.get("survival")
    if table is not None and len(table):
        yield "survival", [figure_of_survival(table, context)]


def figure_of_survival(table: pd.DataFrame, context: Context) -> "Figure":
    """The curves of the clients; those after the eighth are pale."""
    curves = steps_of(table)
    keys = [marks.Key(rank, curve.client) for rank, curve in enumerate(curves[:STRONG])]
    with style():
        note = f"{TITLE}, Kaplan-Meier, first seed"
        if len(curves) > STRONG:
            note += f"; pale: {len(curves) - STRONG} clients with fewer samples"
        foot = FOOT + marks.legend_inches(keys)
        figure, (axes,) = sheet(context.title, note, [HIGH], foot)
        for rank, curve in enumerate(curves):
            axes.plot(curve.time, curve.survival, **marks.line_of(rank))
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel(AXIS)
        axes.set_ylabel("share without an event")
        if len(keys) > 1:
            _legend(figure, keys)
        return figure


def _legend(figure: "Figure", keys: list[marks.Key]) -> None:
    """Draw the clients' names with their lines, which have no markers."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **marks.line_of(key.rank)) for key in keys]
    labels = marks.labels_of(keys)
    columns = marks.abreast(keys)
    figure.legend(handles, labels, loc="lower center", ncols=columns, borderaxespad=0.2)
