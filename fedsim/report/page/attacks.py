"""Methods against attacks as a shaded table: mean scores, the worst of every method marked."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.element import breakable
from fedsim.report.pictures.attacks import Grid, grids
from fedsim.study.summary import Record

SHADES = 5  # beside the palest one


class Cell(NamedTuple):
    """A method under an attack."""

    text: str
    shade: int  # from 0 for the worst score to SHADES for the best
    worst: bool  # whether no attack hurts the method more


class Table(NamedTuple):
    """Methods by attacks, with everything else the same, as the template takes it."""

    title: str
    attacks: list[str]
    rows: list[tuple[Markup, list[Cell]]]


def attacks(summary: Sequence[Record], context: Context) -> list[Table]:
    """A table for every variation apart from the attack; none where attacks do not vary.

    Args:
      summary: rows of `summary.csv`.
      context: what is shown.
    """
    return [_table(grid) for grid in grids(summary, context)]


def _table(grid: Grid) -> Table:
    rows = []
    for index, method in enumerate(grid.methods):
        means = grid.means[index].tolist()
        shades = grid.shades[index].tolist()
        worst = grid.worst[index].tolist()
        cells = [_cell(*cell) for cell in zip(means, shades, worst, strict=True)]
        rows.append((breakable(method), cells))
    return Table(grid.title, grid.attacks, rows)


def _cell(mean: float, shade: float, worst: bool) -> Cell:
    """A cell; a pair without a run is empty.

    Args:
      mean: the mean score; NaN without a run, infinite where runs diverged.
      shade: how good it is among all scores, from 0 to 1.
      worst: whether no attack hurts the method more.
    """
    if math.isnan(mean):
        return Cell("", 0, False)
    if math.isinf(mean):
        return Cell("diverged", 0, True)
    return Cell(f"{mean:.3g}", round(SHADES * shade), worst)
