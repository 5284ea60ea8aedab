"""Scores against what they cost on the page: a picture of the front, and the numbers beside it."""

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from fedsim.report.about import About
from fedsim.report.cost_table import cost_table
from fedsim.report.page import strips
from fedsim.report.page.plot import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from fedsim.report.page.scales import Axis, axis, short
from fedsim.report.page.strips import breakable
from fedsim.report.pictures.costs import CostPicture, Point, cost_pictures
from fedsim.report.results import Row
from fedsim.study.cost_axes import Axis as Counted
from fedsim.study.summary import in_words, is_share


def costs(
    counted: Counted, rows: Sequence[Row], baseline: str, about: About
) -> list[dict[str, Any]]:
    """Table and picture for every variation beside what is compared; no picture where all cost the
    same.

    Args:
      counted: what is counted.
      rows: of its table.
      baseline: the method that the others are compared with.
      about: what is shown.
    """
    return [_part(picture, about) for picture in cost_pictures(counted, rows, baseline, about)]


def _part(picture: CostPicture, about: About) -> dict[str, Any]:
    """One variation, as the template takes it."""
    words = 2 if picture.way else 1  # columns before the numbers
    head, table = cost_table(picture)
    cells = [
        [*row[: words - 1], (breakable(str(row[words - 1][0])), row[words - 1][1]), *row[words:]]
        for row in table
    ]
    targets = _targets(picture, about) if picture.drawn and picture.aimed else None
    drawn = _picture(picture) if picture.drawn and targets is None else ""
    return {
        "title": picture.title,
        "head": head,
        "rows": cells,
        "words": words,
        "picture": drawn,
        "targets": targets,
    }


def _targets(picture: CostPicture, about: About) -> strips.Strips:
    """The median to the target with its interval, a row per method."""
    counted = picture.axis
    ends = [
        end
        for point in picture.points
        for end in (point.median, point.target_low, point.target_high)
    ]
    x = strips.percent_axis([0.0, *(end for end in ends if end is not None and math.isfinite(end))])
    marks = []
    for point in picture.points:
        high = point.target_high
        text = counted.tick(point.median) if point.median is not None else "∞"
        whole = point.row["reached"] == point.row["seeds"]
        mark = strips.Mark(
            at=point.median,
            low=point.target_low,
            high=high if high is None or math.isfinite(high) else x.high,
            dots=[],
            filled=whole,
            text=text,
            title=f"{text}, {point.arrived} seeds reached it",
        )
        marks.append((point.name, "" if whole else point.arrived, [mark]))
    target = about.target_of(picture.metric)
    label = f"{counted.noun} to {target}: median and 95 % interval; open: not all seeds reached it"
    return strips.marks_picture(marks, x, label)


def _picture(picture: CostPicture) -> Markup:
    """A point for every row, its number beside it, and a line along the front."""
    points = picture.finite
    ends = [
        end for point in points for end in (point.mean, point.row["ci_low"], point.row["ci_high"])
    ]
    x = _cost_axis(picture)
    y = axis(
        [end for end in ends if end is not None], HEIGHT - BOTTOM, TOP, is_share(picture.metric)
    )
    steps = "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in picture.corners())
    marks = "".join(_mark(picture, point, x, y) for point in reversed(points))
    label = f"{picture.label}{', logarithmic' if x.log else ''}"
    title = escape(f"{in_words(picture.metric)} by {label}")
    head = f'<svg class="front" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
    line = f'<path class="front" d="M{steps}"/>' if steps else ""
    return Markup(f"{head}{_grid(picture.axis, x, y, label)}{line}{marks}</svg>")


def _cost_axis(picture: CostPicture) -> Axis:
    """From 0; logarithmic where some cost much more than others."""
    spent = [point.cost for point in picture.finite]
    least, most = min(spent), max(spent)
    if picture.log:
        margin = (most / least) ** 0.05
        return Axis(least / margin, most * margin, LEFT, WIDTH - RIGHT, log=True)
    return Axis(0.0, 1.06 * most or 1.0, LEFT, WIDTH - RIGHT)


def _grid(counted: Counted, x: Axis, y: Axis, label: str) -> str:
    parts = ['<g class="axes">']
    for tick in y.ticks():
        at = f"{y.at(tick):.1f}"
        parts.append(
            f'<g class="tick"><line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/></g>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y.at(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>'
        )
    for tick in x.ticks():
        place = f'x="{x.at(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle"'
        parts.append(f"<text {place}>{counted.tick(tick)}</text>")
    place = f'x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle"'
    return "".join([*parts, f"<text {place}>{label}</text></g>"])


def _mark(picture: CostPicture, point: Point, x: Axis, y: Axis) -> str:
    """A point, the interval of its mean, and its number."""
    at, mean = x.at(point.cost), y.at(point.mean)
    text = f"{point.name}: {point.mean:.4g} at {picture.axis.tick(point.cost)}"
    look = "s0" if point.front else "pale"
    bar = ""
    if point.low is not None and point.high is not None:
        ends = f'y1="{y.at(point.low):.1f}" y2="{y.at(point.high):.1f}"'
        bar = f'<line x1="{at:.1f}" x2="{at:.1f}" {ends}/>'
    return (
        f'<g class="point {look}"><title>{escape(text)}</title>{bar}'
        f'<circle cx="{at:.1f}" cy="{mean:.1f}" r="4"/>'
        f'<text x="{at + 6:.1f}" y="{mean - 5:.1f}">{point.number}</text></g>'
    )
