"""Scores against what they cost, on the page: a picture, and a table of the numbers."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.cost_table import cost_table
from fedsim.report.element import breakable
from fedsim.report.figures.costs import front_on_page
from fedsim.report.figures.rows import Shown, rows_on_page
from fedsim.report.page.folding import Group, by_method
from fedsim.report.pictures.costs import CostPicture, cost_pictures, rows_of_targets
from fedsim.report.results import Row
from fedsim.study.cost_axes import CostAxis


class CostPart(NamedTuple):
    """The scores and costs of one variation, as the template takes them.

    Attributes:
      words: how many of the first columns are words.
      picture: the front; empty where there is none.
      targets: what was spent to the target; None where that is not drawn.
    """

    title: str
    head: list[str]
    groups: list[Group]
    words: int
    picture: Markup
    targets: Shown | None


def cost_parts(
    cost_axis: CostAxis, rows: Sequence[Row], baseline: str, context: Context
) -> list[CostPart]:
    """Table and picture for every variation; no picture where all methods cost the same."""
    pictures = cost_pictures(cost_axis, rows, baseline, context)
    return [_part(picture, context) for picture in pictures]


def differ(part: CostPart) -> bool:
    """Whether the methods of a variation differ in what they cost."""
    return bool(part.picture) or part.targets is not None


def _part(picture: CostPicture, context: Context) -> CostPart:
    head, rows = cost_table(picture)
    words = 2 if picture.way else 1  # the number in the picture, and the method
    for row in rows:
        name, key = row[words - 1]
        row[words - 1] = (breakable(name), key)

    front = Markup("")
    targets = None
    if picture.drawn and picture.shows_target:
        targets = rows_on_page(rows_of_targets(picture, context))
    elif picture.drawn:
        front = front_on_page(picture)
    methods = [str(point.row["method"]) for point in picture.points]
    groups = by_method(rows, methods, lambda method, rows: f"{method}: {len(rows)} rows")
    return CostPart(picture.title, head, groups, words, front, targets)
