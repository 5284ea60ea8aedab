"""What the clients of one round do when, on the page: a bar each, like a Gantt chart, and where the
server steps.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from fedsim.report.page.scales import Axis, short
from fedsim.report.pictures.machines import LOST, WORDS, Bar, Panel, panels

WIDTH, LEFT, RIGHT, TOP, BOTTOM, ROW = 560, 8, 14, 6, 40, 9
HIGH = 360  # of all rows together


def machines(table: pd.DataFrame | None, names: Sequence[str]) -> dict[str, Any] | None:
    """A picture for every method, or for methods that have the same one; None where times do not
    differ.

    Args:
      table: the columns of `machines.csv`.
      names: of the methods, in the order of the result.
    """
    if table is None:
        return None
    parts = panels(table, list(names))
    longest = max((part.seconds for part in parts), default=0.0)
    if not longest > 0:
        return None
    shown = [
        {"title": ", ".join(part.names), "about": part.about, "picture": _picture(part, longest)}
        for part in parts
    ]
    lost = [
        name for name in LOST if any(bar.outcome == name for part in parts for bar in part.bars)
    ]
    return {
        "panels": shown,
        "keys": [*WORDS.items()],
        "marks": [(name, LOST[name], _symbol(name)) for name in lost],
    }


def _picture(panel: Panel, longest: float) -> Markup:
    row = min(ROW, HIGH / panel.rows)
    foot = TOP + row * panel.rows
    x = Axis(0.0, 1.02 * longest, LEFT, WIDTH - RIGHT)
    parts = ['<g class="axes">']
    for tick in x.ticks():
        at = f"{x.at(tick):.1f}"
        parts.append(f'<g class="tick"><line x1="{at}" x2="{at}" y1="{TOP}" y2="{foot:.1f}"/></g>')
        parts.append(
            f'<text x="{at}" y="{foot + 16:.1f}" text-anchor="middle">{short(tick)}</text>'
        )
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{foot + 34:.1f}" text-anchor="middle">virtual seconds</text></g>'
    )
    parts += [_bar(bar, x, TOP + row * bar.place, row) for bar in panel.bars]
    look = "step" if panel.flights else "step end"
    for step in panel.steps:
        at = f"{x.at(step):.1f}"
        parts.append(f'<line class="{look}" x1="{at}" x2="{at}" y1="{TOP - 4}" y2="{foot:.1f}"/>')
    label = escape(f"{', '.join(panel.names)}: what clients do when; {panel.about}")
    head = f'<svg viewBox="0 0 {WIDTH} {foot + BOTTOM:.0f}" role="img" aria-label="{label}">'
    return Markup("".join([head, *parts, "</svg>"]))


def _bar(bar: Bar, x: Axis, top: float, row: float) -> str:
    """The parts of a client's bar, and a mark where its message does not count."""
    high = 0.78 * row
    inside = "".join(
        f'<rect class="{name}" x="{x.at(begin):.1f}" y="{top + 0.11 * row:.1f}" '
        f'width="{max(x.at(end) - x.at(begin), 0.3):.1f}" height="{high:.1f}"/>'
        for name, begin, end in bar.parts
    )
    at, middle = x.at(bar.end), top + row / 2
    mark = (
        f'<path d="{_shape(bar.outcome, at, middle, 0.4 * row)}"/>' if bar.outcome in LOST else ""
    )
    title = f"client {bar.client}: {bar.outcome}, {bar.end:.3g} s"
    return (
        f'<g class="work{" lost" if mark else ""}"><title>{escape(title)}</title>{inside}{mark}</g>'
    )


def _shape(outcome: str, x: float, y: float, half: float) -> str:
    """A cross for who left, a circle for who is not needed, a bar for who is late."""
    if outcome == "left":
        return f"M{x - half:.1f} {y - half:.1f}l{2 * half:.1f} {2 * half:.1f}m0 {-2 * half:.1f}l{-2 * half:.1f} {2 * half:.1f}"
    if outcome == "late":
        return f"M{x:.1f} {y - half:.1f}v{2 * half:.1f}"
    return f"M{x - half:.1f} {y:.1f}a{half:.1f} {half:.1f} 0 1 0 {2 * half:.1f} 0a{half:.1f} {half:.1f} 0 1 0 {-2 * half:.1f} 0"


def _symbol(outcome: str) -> Markup:
    """The mark, for a legend."""
    return Markup(
        f'<svg width="16" height="14" aria-hidden="true"><g class="work"><path d="{_shape(outcome, 8, 7, 4)}"/></g></svg>'
    )
