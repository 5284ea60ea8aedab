"""Pictures with a row per method: a name, a strip of a common axis with marks, and a number.

Places are percentages of the strip's width, so that the text beside it stays as large as text is, on a phone too.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from fedsim.report.page.scales import Axis, axis, short

BEGIN, END = 1.5, 98.5  # of an axis, in percent of the strip
SHAPES = (
    '<circle r="5"/>',
    '<rect x="-4.5" y="-4.5" width="9" height="9"/>',
    '<path d="M0-6.2L6.2 0L0 6.2L-6.2 0Z"/>',
    '<path d="M0-6L5.6 4H-5.6Z"/>',
    '<path d="M0 6L5.6-4H-5.6Z"/>',
    '<path d="M-5-5L5 5M5-5L-5 5"/>',
)


class Mark(NamedTuple):
    """A number with its interval, and the numbers behind it.

    Attributes:
      at: the number; None where there is none to draw.
      low: lower end of its interval; None where there is none.
      high: upper end.
      dots: the numbers that it is the mean of.
      filled: whether it is filled.
      text: beside the strip.
      title: for whoever points at it, or cannot see it.
    """

    at: float | None
    low: float | None
    high: float | None
    dots: Sequence[float]
    filled: bool
    text: str
    title: str


class Row(NamedTuple):
    """A row of a picture, as the template takes it."""

    name: Markup  # may be broken before a bracket
    note: str  # behind the name
    picture: Markup
    texts: list[str]


class Strips(NamedTuple):
    """A picture, as the template takes it."""

    rows: list[Row]
    back: Markup  # lines through all rows
    foot: Markup  # the axis
    label: str  # what is on it
    keys: list[tuple[Markup, str]]  # symbols and their meaning


def marks_picture(
    rows: Sequence[tuple[str, str, Sequence[Mark]]],
    x: Axis,
    label: str,
    lines: Sequence[tuple[float, str]] = (),
    keys: Sequence[tuple[Markup, str]] = (),
) -> Strips:
    """A row per name, a line of it per mark.

    Args:
      rows: name, note, and marks in the order of their kinds.
      x: the axis, in percent.
      label: of the axis.
      lines: through all rows: place, and class.
      keys: symbols and their meaning.
    """
    drawn = []
    for name, note, marks in rows:
        middles = [100 * (kind + 0.5) / len(marks) for kind in range(len(marks))]
        inside = "".join(_mark(m, kind, x, middles[kind]) for kind, m in enumerate(marks))
        title = f"{name}: {'; '.join(mark.title for mark in marks)}"
        drawn.append(
            Row(breakable(name), note, _strip(inside, title), [mark.text for mark in marks])
        )
    return Strips(
        drawn, _lines(x, lines), _foot(x), label + (", logarithmic" if x.log else ""), list(keys)
    )


def spread_picture(rows: Sequence[tuple[str, Sequence[float]]], x: Axis, label: str) -> Strips:
    """A row per name: from the 10th to the 90th percentile, the middle half darker, the median as a line."""
    drawn = []
    for name, values in rows:
        bars, text = "", ""
        if len(values):
            ends = [float(v) for v in np.percentile(values, (10, 25, 50, 75, 90))]
            places = [x.at(end) for end in ends]
            bars = "".join(
                f'<rect class="bar" x="{low:.2f}%" y="-7" width="{max(high - low, 0.2):.2f}%" height="14"/>'
                for low, high in ((places[0], places[4]), (places[1], places[3]))
            )
            bars += (
                f'<line class="middle" x1="{places[2]:.2f}%" x2="{places[2]:.2f}%" y1="-9" y2="9"/>'
            )
            text = f"{ends[2]:.3f}"
        inside = f'<svg y="50%" width="100%" overflow="visible">{bars}</svg>'
        drawn.append(Row(breakable(name), "", _strip(inside, f"{name}: median {text}"), [text]))
    return Strips(drawn, _lines(x), _foot(x), label, [])


def percent_axis(values: Sequence[float], share: bool = False) -> Axis:
    """An axis for finite values on a strip."""
    return axis(values, BEGIN, END, share)


def symbol(kind: int, filled: bool = True) -> Markup:
    """The mark of a kind, for a legend."""
    shape = SHAPES[kind % len(SHAPES)]
    fill = "filled" if filled else "open"
    return Markup(
        f'<svg width="16" height="14" aria-hidden="true"><g class="mark v{kind % 6} {fill}" '
    ) + Markup(f'transform="translate(8 7)">{shape}</g></svg>')


def line_symbol(name: str) -> Markup:
    """A line of a class, for a legend."""
    head = f'<svg width="16" height="14" aria-hidden="true"><line class="{escape(name)}"'
    return Markup(f'{head} x1="8" x2="8" y1="0" y2="14"/></svg>')


def breakable(name: str) -> Markup:
    """A name that may be broken before a bracket and after a low line.

    >>> breakable("multi_krum(f=6)<b>")
    Markup('multi_<wbr>krum<wbr>(f=6)&lt;b&gt;')
    """
    return Markup(str(escape(name)).replace("_", "_<wbr>").replace("(", "<wbr>("))


def _mark(mark: Mark, kind: int, x: Axis, y: float) -> str:
    """A mark at a height in percent of its row."""
    at = f"{y:.4g}%"
    dots = "".join(
        f'<circle cx="{x.at(v):.1f}%" cy="5" r="2"/>' for v in mark.dots if math.isfinite(v)
    )
    dots = f'<svg class="dots" y="{at}" overflow="visible">{dots}</svg>' if dots else ""
    interval = shape = ""
    if mark.low is not None and mark.high is not None and mark.at is not None:
        interval = f'<line class="interval" x1="{x.at(mark.low):.2f}%" x2="{x.at(mark.high):.2f}%" y1="{at}" y2="{at}"/>'
    if mark.at is not None:
        shape = f'<svg x="{x.at(mark.at):.2f}%" y="{at}" overflow="visible">{SHAPES[kind % len(SHAPES)]}</svg>'
    title = f"<title>{escape(mark.title)}</title>"
    return f'<g class="mark v{kind % 6} {"filled" if mark.filled else "open"}">{title}{interval}{dots}{shape}</g>'


def _lines(x: Axis, lines: Sequence[tuple[float, str]] = ()) -> Markup:
    """Lines through all rows: the ticks, then others by place and class."""
    drawn = "".join(
        f'<line class="{name}" x1="{x.at(value):.2f}%" x2="{x.at(value):.2f}%" y2="100%"/>'
        for value, name in (*((tick, "tick") for tick in x.ticks()), *lines)
    )
    return Markup(f'<svg aria-hidden="true">{drawn}</svg>')


def _strip(inside: str, label: Any) -> Markup:
    return Markup(f'<svg role="img" aria-label="{escape(label)}">{inside}</svg>')


def _foot(x: Axis) -> Markup:
    """The numbers of the axis; every second one is left out where there is little room."""
    odd = ' class="odd"'
    numbers = "".join(
        f'<text x="{x.at(t):.2f}%" y="13" text-anchor="middle"{odd if place % 2 else ""}>{short(t)}</text>'
        for place, t in enumerate(x.ticks())
    )
    return Markup(f'<svg aria-hidden="true">{numbers}</svg>')
