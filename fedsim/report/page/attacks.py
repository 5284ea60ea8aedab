"""Methods against attacks as a table with shades: the mean score of each pair, the worst of every
method marked.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from fedsim.report.about import About
from fedsim.report.page.strips import breakable
from fedsim.report.pictures.attacks import Grid, grids
from fedsim.study.summary import Record

SHADES = 5  # from the worst score to the best


class Cell(NamedTuple):
    """A method under an attack."""

    text: str
    shade: int  # 0, the worst, to SHADES
    worst: bool  # of the method


class Table(NamedTuple):
    """Methods by attacks under one variation of everything else, as the template takes it."""

    title: str
    attacks: list[str]
    rows: list[tuple[Markup, list[Cell]]]


def attacks(summary: Sequence[Record], about: About) -> list[Table]:
    """A table for every variation beside the attack; none where attacks do not vary.

    Args:
      summary: rows of `summary.csv`.
      about: what is shown.
    """
    return [_table(grid) for grid in grids(summary, about)]


def _table(grid: Grid) -> Table:
    rows = []
    for name, *columns in zip(grid.methods, grid.means, grid.shades, grid.worst, strict=True):
        cells = [
            _cell(*pair) for pair in zip(*(column.tolist() for column in columns), strict=True)
        ]
        rows.append((breakable(name), cells))
    return Table(grid.title, grid.attacks, rows)


def _cell(mean: float, share: float, worst: bool) -> Cell:
    if math.isnan(mean):
        return Cell("", 0, False)
    if math.isinf(mean):
        return Cell("diverged", 0, True)
    return Cell(f"{mean:.3g}", round(SHADES * share), worst)
