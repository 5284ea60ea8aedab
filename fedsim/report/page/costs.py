"""Scores against what they cost on the page: a picture of the front, and the numbers beside it."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from fedsim.report.cost_table import CostTable, cost_tables
from fedsim.report.page import strips
from fedsim.report.page.plot import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from fedsim.report.page.scales import Axis, axis, short
from fedsim.report.page.strips import breakable
from fedsim.report.results import Row
from fedsim.study.cost_axes import WAYS
from fedsim.study.cost_axes import Axis as Counted
from fedsim.study.costs import cost, front_of
from fedsim.study.summary import in_words, is_share

WIDE = 10.0  # the most over the fewest, from which on their axis is logarithmic


def costs(counted: Counted, rows: Sequence[Row], baseline: str, scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Table and picture for every variation beside what is compared; no picture where all cost the same.

    Args:
      counted: what is counted.
      rows: of its table.
      baseline: the method that the others are compared with.
      scenario: as in `run.json`.
    """
    parts = []
    for table in cost_tables(counted, rows, baseline, scenario):
        words = 2 if table.way else 1  # columns before the numbers
        cells = [
            [*row[: words - 1], (breakable(str(row[words - 1][0])), row[words - 1][1]), *row[words:]]
            for row in table.cells
        ]
        several = table.way and len(table.rows) > 1
        targets = _targets(counted, table, scenario) if several and counted.equal else None
        picture = _picture(counted, table) if several and targets is None else ""
        part = {"title": table.title, "head": table.head, "rows": cells, "words": words}
        parts.append({**part, "picture": picture, "targets": targets})
    return parts


def _targets(counted: Counted, table: CostTable, scenario: Mapping[str, Any]) -> strips.Strips | None:
    """The median to the target with its interval, a row per method; None where no half of any row's runs reached it."""
    columns = (counted.target, "target_low", "target_high")
    numbers = [[row.get(name) for name in columns] for row in table.rows]
    known = [value for row in numbers for value in row if value is not None and math.isfinite(value)]
    if not any(row[0] is not None and math.isfinite(row[0]) for row in numbers):
        return None
    x = strips.percent_axis([0.0, *known])
    place = lambda value: value if value is None or math.isfinite(value) else x.high
    marks = []
    for name, row, (median, low, high) in zip(table.names, table.rows, numbers, strict=True):
        arrived = f"{row['reached']:.0f} of {row['seeds']:.0f}"
        at, low = (value if value is not None and math.isfinite(value) else None for value in (median, low))
        text = counted.tick(at) if at is not None else "∞"
        whole = row["reached"] == row["seeds"]
        mark = strips.Mark(at, low, place(high), [], whole, text, f"{text}, {arrived} seeds reached it")
        marks.append((name, "" if whole else arrived, [mark]))
    metric = in_words(str(table.rows[0]["metric"]))
    target = f"{metric} {(scenario.get('evaluate') or {}).get('target', '')}".strip()
    label = f"{counted.noun} to {target}: median and 95 % interval; open: not all seeds reached it"
    return strips.marks_picture(marks, x, label)


def _picture(counted: Counted, table: CostTable) -> Markup:
    """A point for every row, its number beside it, and a line along the front."""
    points = [
        (number + 1, name, row, cost(row, table.way))
        for number, (name, row) in enumerate(zip(table.names, table.rows, strict=True))
        if math.isfinite(row["mean"])
    ]
    metric = in_words(str(table.rows[0]["metric"]))
    ends = [end for _, _, row, _ in points for end in (row["mean"], row["ci_low"], row["ci_high"]) if end is not None]
    x = _cost_axis([sent for *_, sent in points])
    y = axis(ends, HEIGHT - BOTTOM, TOP, is_share(str(table.rows[0]["metric"])))
    front = [(sent, row["mean"]) for row, sent in front_of([row for _, _, row, _ in points], table.way)]
    corners = [
        *front[:1],
        *(corner for one, other in pairwise(front) for corner in ((other[0], one[1]), other)),
    ]
    steps = "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in corners)
    marks = "".join(_mark(counted, *point, x, y) for point in reversed(points))
    label = f"{WAYS[table.way].words}{WAYS[table.way].of}{', logarithmic' if x.log else ''}"
    head = (
        f'<svg class="front" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(f"{metric} by {label}")}">'
    )
    line = f'<path class="front" d="M{steps}"/>' if steps else ""
    return Markup(f"{head}{_grid(counted, x, y, label)}{line}{marks}</svg>")


def _cost_axis(sent: Sequence[float]) -> Axis:
    """From 0; logarithmic where some cost much more than others."""
    if min(sent) > 0 and max(sent) > WIDE * min(sent):
        margin = (max(sent) / min(sent)) ** 0.05
        return Axis(min(sent) / margin, max(sent) * margin, LEFT, WIDTH - RIGHT, log=True)
    return Axis(0.0, 1.06 * max(sent) or 1.0, LEFT, WIDTH - RIGHT)


def _grid(counted: Counted, x: Axis, y: Axis, label: str) -> str:
    parts = ['<g class="axes">']
    for tick in y.ticks():
        at = f"{y.at(tick):.1f}"
        parts.append(f'<g class="tick"><line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/></g>')
        parts.append(f'<text x="{LEFT - 6}" y="{y.at(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    for tick in x.ticks():
        place = f'x="{x.at(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle"'
        parts.append(f"<text {place}>{counted.tick(tick)}</text>")
    place = f'x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle"'
    return "".join([*parts, f"<text {place}>{label}</text></g>"])


def _mark(counted: Counted, number: int, name: str, row: Row, sent: float, x: Axis, y: Axis) -> str:
    """A point, the interval of its mean, and its number."""
    at, mean, low, high = x.at(sent), y.at(row["mean"]), row["ci_low"], row["ci_high"]
    if low is not None and is_share(str(row["metric"])):
        low, high = max(low, 0.0), min(high, 1.0)
    text = f"{name}: {row['mean']:.4g} at {counted.tick(sent)}"
    look = "s0" if row["front"] else "pale"
    bar = "" if low is None else f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y.at(low):.1f}" y2="{y.at(high):.1f}"/>'
    return (
        f'<g class="point {look}"><title>{escape(text)}</title>{bar}<circle cx="{at:.1f}" cy="{mean:.1f}" r="4"/>'
        f'<text x="{at + 6:.1f}" y="{mean - 5:.1f}">{number}</text></g>'
    )
