"""Still pictures of the page as SVG. Colours come from classes, so that dark mode and print choose them; the script moves
the lines of the same pictures.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from fedsim.report.page.scales import Axis, axis, short
from fedsim.study.standings import SURE

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 12, 40
NAMES, ROW = 210, 24  # where the names of a row end, and how high it is
SHADES = 8


class Curve(NamedTuple):
    """A line with its band.

    Attributes:
      name: of the method.
      place: of its colour.
      x: `[R]` by name of the axis: round, bytes, seconds.
      mean: `[R]`.
      low: `[R]`.
      high: `[R]`.
    """

    name: str
    place: int
    x: dict[str, list[float]]
    mean: list[float]
    low: list[float]
    high: list[float]


def lines(curves: Sequence[Curve], label: str, share: bool, target: float | None = None) -> Markup:
    """Curves against rounds, with bands."""
    x = axis([v for c in curves for v in c.x["round"]], LEFT, WIDTH - RIGHT, whole=True)
    y = axis([v for c in curves for v in (*c.low, *c.high)], HEIGHT - BOTTOM, TOP, share)
    parts = [_grid(x, y), '<g class="plot">']
    if target is not None and y.low <= target <= y.high:
        at = f"{y.at(target):.1f}"
        parts.append(f'<line class="target" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
    for curve in curves:
        rounds = curve.x["round"]
        points = list(zip(rounds, curve.mean, strict=True))
        band = list(zip([*rounds, *rounds[::-1]], [*curve.high, *curve.low[::-1]], strict=True))
        shape = f'<path class="band" d="{path(band, x, y)}Z"/>' if curve.low != curve.high and band else ""
        name = escape(curve.name)
        parts.append(f'<g class="series s{curve.place % 8} d{curve.place // 8 % 3}" data-name="{name}">{shape}')
        parts.append(f'<path class="line" d="{path(points, x, y)}"/></g>')
    return _svg("".join([*parts, "</g>"]), HEIGHT, f"{label} by round")


def path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    """The `d` of a line through points.

    >>> path([(0, 0), (1, 1)], Axis(0, 1, 0, 10), Axis(0, 1, 10, 0))
    'M0 10L10 0'
    """
    return "M" + "L".join(f"{_tenth(x.at(a))} {_tenth(y.at(b))}" for a, b in points) if points else ""


def forest(rows: Sequence[Mapping[str, Any]], label: str) -> Markup:
    """Paired differences with their intervals; filled where sure, an empty row where there is no number."""
    known = [row[name] for row in rows for name in ("difference", "ci_low", "ci_high") if _known(row[name])]
    x = axis([0.0, *known], NAMES, WIDTH - RIGHT - 8)
    foot = ROW * len(rows) + 6
    parts = [f'<line class="zero" x1="{x.at(0):.1f}" x2="{x.at(0):.1f}" y1="4" y2="{foot}"/>']
    for place, row in enumerate(rows):
        if not _known(row["difference"]):
            continue
        y = ROW * place + ROW / 2 + 4
        sure = "sure" if _known(row["p_adjusted"]) and row["p_adjusted"] < SURE else "open"
        title = escape(f"{row['method']}: {row['difference']:+.4g}")
        ends = f'x1="{x.at(row["ci_low"]):.1f}" x2="{x.at(row["ci_high"]):.1f}"' if _known(row["ci_low"]) else ""
        interval = f'<line {ends} y1="{y}" y2="{y}"/>' if ends else ""
        mark = f'<circle cx="{x.at(row["difference"]):.1f}" cy="{y}" r="4.5"/>'
        parts.append(f'<g class="mark {sure}"><title>{title}</title>{interval}{mark}</g>')
    return _by_name([str(row["method"]) for row in rows], x, "".join(parts), label)


def spread(rows: Sequence[tuple[str, int, Sequence[float]]], label: str) -> Markup:
    """How clients fare: per method the 10th to 90th percentile as a bar, the middle half darker, the median as a line."""
    x = axis([v for _, _, values in rows for v in values], NAMES, WIDTH - RIGHT - 8, share=True)
    parts = []
    for place, (_, colour, values) in enumerate(rows):
        if len(values):
            ends = [x.at(float(v)) for v in np.percentile(values, (10, 25, 50, 75, 90))]
            y = ROW * place + 8
            bars = "".join(
                f'<rect class="band" x="{low:.1f}" y="{y}" width="{high - low:.1f}" height="16"/>'
                for low, high in ((ends[0], ends[4]), (ends[1], ends[3]))
            )
            middle = f'<line class="line" x1="{ends[2]:.1f}" x2="{ends[2]:.1f}" y1="{y}" y2="{y + 16}"/>'
            parts.append(f'<g class="series s{colour % 8}">{bars}{middle}</g>')
    return _by_name([name for name, _, _ in rows], x, "".join(parts), label)


def _by_name(names: Sequence[str], x: Axis, inside: str, label: str) -> Markup:
    """A picture with a row per name, an axis below, and its label."""
    foot = ROW * len(names) + 6
    parts = []
    for t in x.ticks():
        at = f"{x.at(t):.1f}"
        number = f'<text x="{at}" y="{foot + 16}" text-anchor="middle">{short(t)}</text>'
        parts.append(f'<g class="tick"><line x1="{at}" x2="{at}" y1="4" y2="{foot}"/>{number}</g>')
    for place, name in enumerate(names):
        at = f'x="{NAMES - 10}" y="{ROW * place + 20}"'
        parts.append(f'<text {at} text-anchor="end" class="who">{escape(_cut(name, 32))}</text>')
    parts.append(inside)
    middle = (NAMES + WIDTH) / 2
    parts.append(f'<text x="{middle}" y="{foot + 32}" text-anchor="middle" class="small">{escape(label)}</text>')
    return _svg("".join(parts), foot + 38, label)


def heat_map(samples: np.ndarray, across: str, up: str) -> Markup:
    """Samples `[clients, labels]`, a cell each, darker where there are more; square roots are shaded."""
    clients, labels = samples.shape
    wide, high = (WIDTH - LEFT - RIGHT) / clients, min(20.0, 220 / labels)
    most = math.sqrt(max(float(samples.max()), 1.0))
    levels = np.ceil(np.sqrt(samples) / most * SHADES).astype(int)
    parts = []
    for level in range(1, SHADES + 1):
        cells = "".join(f"M{LEFT + c * wide:.1f} {TOP + k * high:.1f}h{wide:.1f}v{high:.1f}h-{wide:.1f}z"
                        for c, k in zip(*np.nonzero(levels == level), strict=True))  # fmt: skip
        parts.append(f'<path class="heat h{level}" d="{cells}"/>' if cells else "")
    foot = TOP + labels * high
    at = f'x="{(LEFT + WIDTH) / 2}" y="{foot + 16:.0f}"'
    parts.append(f'<text class="small" {at} text-anchor="middle">{escape(across)}</text>')
    middle = (TOP + foot) / 2
    turned = f'transform="rotate(-90 20 {middle:.0f})"'
    parts.append(f'<text class="small" x="20" y="{middle:.0f}" text-anchor="middle" {turned}>{escape(up)}</text>')
    return _svg("".join(parts), round(foot + 24), f"{up} by {across}")


def _grid(x: Axis, y: Axis) -> str:
    parts = ['<g class="axes">']
    for t in y.ticks():
        at = f"{y.at(t):.1f}"
        parts.append(f'<g class="tick"><line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
                     f'<text x="{LEFT - 6}" y="{y.at(t) + 4:.1f}" text-anchor="end">{short(t)}</text></g>')  # fmt: skip
    for t in x.ticks():
        parts.append(f'<text x="{x.at(t):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(t)}</text>')
    at = f'x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}"'
    return "".join([*parts, f'</g><text class="small name" {at} text-anchor="middle">rounds</text>'])


def _svg(inside: str, height: int, label: str) -> Markup:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="{escape(label)}">'
    return Markup(f"{head}{inside}</svg>")


def _tenth(value: float) -> str:
    """A tenth of a unit is enough for the eye.

    >>> _tenth(1.04), _tenth(-0.04)
    ('1', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _known(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def _cut(text: Any, most: int) -> str:
    text = str(text)
    return text if len(text) <= most else text[: most - 1] + "…"
