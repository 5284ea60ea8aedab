"""Scores beside what they cost as a table for the page and for papers."""

import math

from fedsim.report.pictures.costs import CostPicture, Point
from fedsim.report.results import Cell, Row, amount
from fedsim.study.cost_axes import DOWN, SECONDS, UP
from fedsim.study.costs import cost
from fedsim.study.summary import in_words


def cost_table(picture: CostPicture) -> tuple[list[str], list[list[Cell]]]:
    """Titles of the columns, and the cells of every row, as they are shown and as they are
    sorted.
    """
    rows = [_cells(picture, point) for point in picture.points]
    return [*rows[0]], [[*row.values()] for row in rows]


def _cells(picture: CostPicture, point: Point) -> dict[str, Cell]:
    """One row; `× fewer` compares it with the baseline, in the way in which rows differ."""
    axis, row, way = picture.axis, point.row, picture.way
    cells: dict[str, Cell] = {"": (str(point.number), point.number)} if way else {}
    cells |= {
        "method": (point.name, point.name),
        in_words(picture.metric): _interval(row["mean"], row, "ci", ".3f"),
    }
    spent = {"up": (UP, amount), "down": (DOWN, amount), "seconds": (SECONDS, "{:.4g}".format)}
    cells |= {one: (spent[one][1](row[spent[one][0]]), row[spent[one][0]]) for one in axis.ways}
    if way:
        times = cost(picture.reference, way) / point.cost if point.cost else math.inf
        cells["× fewer"] = (
            ("baseline", 1.0) if row is picture.reference else (f"{times:.3g}", times)
        )
        cells["front"] = ("yes", 1) if point.front else ("", 0)
    if row.get("in_time") is not None:
        cells["in equal time"] = _interval(row["in_time"], row, "in_time", ".3f")
    if row.get(axis.target) is not None:
        cells["reached"] = (point.arrived, row["reached"])
        cells[axis.target_title] = _interval(row[axis.target], row, "target", ".3g", axis.unit)
    return cells


def _interval(value: float, row: Row, name: str, form: str, unit: float = 1.0) -> Cell:
    """A number with its interval."""
    low, high = (row[f"{name}_low"], row[f"{name}_high"])
    text = lambda number: "∞" if math.isinf(number) else f"{number / unit:{form}}"
    ends = "" if low is None or high is None else f" ({text(low)} to {text(high)})"
    return f"{text(value)}{ends}", value if math.isfinite(value) else 1e300
