"""Scores beside what they cost as a table for the page and for papers, from the rows of `bytes.csv` or `seconds.csv`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.report.results import Cell, Row, amount
from fedsim.study.cost_axes import DOWN, SECONDS, UP, Axis
from fedsim.study.costs import cost, direction, groups, name_of, ordered, reference_of
from fedsim.study.summary import in_words
from fedsim.study.words import words_of


class CostTable(NamedTuple):
    """The rows of one variation beside what is compared.

    Attributes:
      title: what varies beside what is compared, in words.
      way: the direction in which rows differ, empty where they do not.
      rows: of the axis' table, those of the front first; each has the number of its place.
      names: of the rows.
      head: titles of the columns.
      cells: of every row, as they are shown and as they are sorted.
    """

    title: str
    way: str
    rows: list[Row]
    names: list[str]
    head: list[str]
    cells: list[list[Cell]]


def cost_tables(axis: Axis, rows: Sequence[Row], baseline: str, scenario: Mapping[str, Any]) -> list[CostTable]:
    """A table for every variation beside what is compared.

    Args:
      axis: what is counted.
      rows: of its table.
      baseline: the method that the others are compared with.
      scenario: as in `run.json`, for the names of what varies.
    """
    tables = []
    words = words_of(scenario)
    for rest, group in groups(axis, rows).items():
        way = direction(axis, group)
        these = ordered(group, way)
        names = [name_of(axis, row, group, words) for row in these]
        reference = reference_of(group, baseline, way)
        cells = [
            _cells(axis, i + 1, name, row, reference, way)
            for i, (name, row) in enumerate(zip(names, these, strict=True))
        ]
        title = words(rest) if rest else ""
        tables.append(CostTable(title, way, these, names, [*cells[0]], [[*row.values()] for row in cells]))
    return tables


def _cells(axis: Axis, number: int, name: str, row: Row, reference: Row, way: str) -> dict[str, Cell]:
    """One row; `× fewer` compares it with the baseline, in the way in which rows differ."""
    cells: dict[str, Cell] = {"": (str(number), number)} if way else {}
    cells |= {"method": (name, name), in_words(str(row["metric"])): _interval(row["mean"], row, "ci", ".3f")}
    spent = {"up": (UP, amount), "down": (DOWN, amount), "seconds": (SECONDS, "{:.4g}".format)}
    cells |= {one: (spent[one][1](row[spent[one][0]]), row[spent[one][0]]) for one in axis.ways}
    if way:
        times = cost(reference, way) / cost(row, way) if cost(row, way) else math.inf
        cells["× fewer"] = ("baseline", 1.0) if row is reference else (f"{times:.3g}", times)
        cells["front"] = ("yes", 1) if row["front"] else ("", 0)
    if row.get("in_time") is not None:
        cells["in equal time"] = _interval(row["in_time"], row, "in_time", ".3f")
    if row.get(axis.target) is not None:
        cells["reached"] = (f"{row['reached']:.0f} of {row['seeds']}", row["reached"])
        cells[axis.target_title] = _interval(row[axis.target], row, "target", ".3g", axis.unit)
    return cells


def _interval(value: float, row: Row, name: str, form: str, unit: float = 1.0) -> Cell:
    """A number with its interval."""
    low, high = (row[f"{name}_low"], row[f"{name}_high"])
    text = lambda number: "∞" if math.isinf(number) else f"{number / unit:{form}}"
    ends = "" if low is None or high is None else f" ({text(low)} to {text(high)})"
    return f"{text(value)}{ends}", value if math.isfinite(value) else 1e300
