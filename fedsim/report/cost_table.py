"""Scores beside what they cost as a table, for the page and for papers."""

import math

from fedsim.report.pictures.costs import CostPicture, Point
from fedsim.report.results import Cell, Row, amount
from fedsim.study.cost_axes import DOWN, SECONDS, UP
from fedsim.study.costs import cost
from fedsim.study.summary import in_words

UNREACHED = 1e300  # the number by which an infinite one is sorted


def cost_table(picture: CostPicture) -> tuple[list[str], list[list[Cell]]]:
    """The titles of the columns, and the cells of every row."""
    rows = [_cells(picture, point) for point in picture.points]
    head = list(rows[0])
    return head, [list(row.values()) for row in rows]


def _cells(picture: CostPicture, point: Point) -> dict[str, Cell]:
    axis = picture.axis
    row = point.row
    cells: dict[str, Cell] = {}
    if picture.way:
        cells[""] = (str(point.number), point.number)
    cells["method"] = (point.name, point.name)
    cells[in_words(picture.metric)] = _interval(row["mean"], row, "ci", "z.3f")
    for way in axis.ways:
        cells[way] = _spent(row, way)
    if picture.way:
        cells["× fewer"] = _saving(picture, point)
        cells["front"] = ("yes", 1) if point.front else ("", 0)
    if row.get("in_time") is not None:
        cells["in equal time"] = _interval(row["in_time"], row, "in_time", "z.3f")
    if row.get(axis.target) is not None:
        cells["reached"] = (point.arrived, row["reached"])
        cells[axis.target_title] = _interval(row[axis.target], row, "target", ".3g", axis.unit)
    return cells


def _spent(row: Row, way: str) -> Cell:
    """What a method spends in one way, such as bytes up."""
    if way == "seconds":
        return f"{row[SECONDS]:.4g}", row[SECONDS]
    column = {"up": UP, "down": DOWN}[way]
    return amount(row[column]), row[column]


def _saving(picture: CostPicture, point: Point) -> Cell:
    """How many times less than the baseline a method costs, in the way in which rows differ."""
    if point.row is picture.reference:
        return "baseline", 1.0
    times = math.inf
    if point.cost:
        times = cost(picture.reference, picture.way) / point.cost
    return f"{times:.3g}", times


def _interval(value: float, row: Row, name: str, form: str, unit: float = 1.0) -> Cell:
    """A number with its interval in brackets.

    Args:
      name: of the interval: its ends are the columns `NAME_low` and `NAME_high`.
    """
    low = row[f"{name}_low"]
    high = row[f"{name}_high"]
    text = _finite(value, form, unit)
    if low is not None and high is not None:
        text += f" ({_finite(low, form, unit)} to {_finite(high, form, unit)})"
    if math.isfinite(value):
        return text, value
    return text, UNREACHED


def _finite(value: float, form: str, unit: float) -> str:
    if math.isinf(value):
        return "∞"
    return f"{value / unit:{form}}"
