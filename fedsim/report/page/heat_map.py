"""The map of a partition: a column per client, a row per label, darker where there are more samples."""

import math
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from fedsim.study.label_skew import LabelCounts, evenly_spaced

SHADES = 6
MOST_CLIENTS, MOST_LABELS = (
    60,
    40,
)  # columns and rows; more clients are chosen evenly, more labels are named by their steps
WIDE, NARROW = 1120, 560  # of the picture; narrow up to so many clients as have room
CUT = 18  # letters of a name
LETTER = 11  # units that a line of text takes


class HeatMap(NamedTuple):
    """A picture, as the template takes it."""

    picture: Markup
    caption: str
    wide: bool  # whether it takes the whole width
    legend: list[tuple[str, str]]  # class of a shade, and its samples


def heat_map(counts: LabelCounts) -> HeatMap:
    """The map, largest clients first."""
    sizes = counts.sizes
    order = np.argsort(-sizes, kind="stable")
    few = order[evenly_spaced(len(order), MOST_CLIENTS)]
    samples = counts.samples[few]
    names = [cut(name) for name in np.asarray(counts.clients, object)[few]]
    labels = [cut(label) for label in counts.labels] or ["samples"]
    wide = len(few) > NARROW // 18
    ends = f"{sizes.min():,} to {sizes.max():,} a client, {int(np.median(sizes)):,} in the middle"
    some = (
        f"{len(few)} of {len(order):,} clients, evenly chosen"
        if len(few) < len(order)
        else f"{len(order)} clients"
    )
    caption = f"{sizes.sum():,} samples; {ends}. Columns: {some}, largest first; rows: {'labels' if counts.labels else 'all'}."
    tops = _tops(int(samples.max()))
    return HeatMap(
        _picture(samples, names, labels, tops, WIDE if wide else NARROW),
        caption,
        wide,
        _legend(tops),
    )


def cut(name: Any, most: int = CUT) -> str:
    """A name as far as there is room for it: names of many clients often differ at their ends alone.

    >>> cut("hospital of Saint Anne 7", 12), cut(7)
    ('hospit…nne 7', '7')
    """
    text = str(name)
    return (
        text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"
    )


def _tops(most: int) -> list[int]:
    """The largest number of every shade: by squares, each shade at least one more than the one before.

    >>> _tops(36), _tops(2)
    ([1, 4, 9, 16, 25, 36], [1, 2])
    """
    tops = sorted({max(-(-most * k * k // SHADES**2), 1) for k in range(1, SHADES + 1)})
    return tops if most else []


def _legend(tops: list[int]) -> list[tuple[str, str]]:
    lows = [1, *(top + 1 for top in tops[:-1])]
    step = SHADES - len(tops)
    spans = [
        f"{low:,}" if low == top else f"{low:,} to {top:,}"
        for low, top in zip(lows, tops, strict=True)
    ]
    return [("h0", "none"), *((f"h{k + step + 1}", span) for k, span in enumerate(spans))]


def _picture(
    samples: np.ndarray, names: list[str], labels: list[str], tops: list[int], width: int
) -> Markup:
    clients, rows = samples.shape
    left = 14 + 7 * max(map(len, labels))
    long = max(map(len, names))
    cell = (width - left - 2) / clients
    flat = long * 6.6 < cell - 2  # there is room to write names along the row
    foot = 18 if flat else 12 + 6.4 * long
    high = min(24.0, max(360 / rows, 3.0))
    levels = (
        np.searchsorted(tops, samples) + (SHADES - len(tops) + 1)
        if tops
        else np.zeros(samples.shape, int)
    )
    levels = np.where(samples > 0, levels, 0)
    parts = [
        f'<rect class="h0" x="{left}" y="0" width="{cell * clients:.1f}" height="{high * rows:.1f}"/>'
    ]
    box = f"h{max(cell - 1, 0.5):.1f}v{max(high - 1, 0.5):.1f}h-{max(cell - 1, 0.5):.1f}z"
    for level in range(1, SHADES + 1):
        places = zip(*np.nonzero(levels == level), strict=True)
        cells = "".join(f"M{left + c * cell:.1f} {k * high:.1f}{box}" for c, k in places)
        parts.append(f'<path class="h{level}" d="{cells}"/>' if cells else "")
    for k in evenly_spaced(rows, min(MOST_LABELS, max(int(high * rows // 13), 1))):
        at = f'x="{left - 6}" y="{(k + 0.5) * high + 4:.1f}"'
        parts.append(f'<text {at} text-anchor="end">{escape(labels[k])}</text>')
    under = high * rows
    for c, name in enumerate(names):
        x = left + (c + 0.5) * cell
        if flat:
            parts.append(
                f'<text x="{x:.1f}" y="{under + 14:.1f}" text-anchor="middle">{escape(name)}</text>'
            )
        elif cell >= LETTER or c % math.ceil(LETTER / cell) == 0:
            turned = f'transform="translate({x + 4:.1f} {under + 8:.1f}) rotate(-90)"'
            parts.append(f'<text {turned} text-anchor="end">{escape(name)}</text>')
    head = f'<svg viewBox="0 0 {width} {under + foot:.0f}" class="heat" role="img" aria-label="samples by client and label">'
    return Markup("".join([head, *parts, "</svg>"]))
