"""The map of a partition: a column per client, a row per label; more samples are darker."""

import math
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from fedsim.report.page.svg import element
from fedsim.study.label_skew import LabelCounts, evenly_spaced

SHADES = 6
MAX_CLIENTS = 60  # columns
MAX_LABELS = 40  # rows that have a name
WIDE = 1120  # units of the picture's width
NARROW = 560
COLUMN = 18  # units of a column, at least, in a narrow picture
CUT = 18  # characters of a name, at most
LINE = 11  # units that a line of text takes
LABEL = 7  # units of a character of a label
CLIENT = 7.2  # units of a character of a client's name that stands upright
LETTER = 6.6  # units of a character of a client's name that lies flat, with some space


class HeatMap(NamedTuple):
    """The map, as the template takes it."""

    picture: Markup
    caption: str
    wide: bool  # whether it takes the full width of the page
    legend: list[tuple[str, str]]  # class of a shade, and its samples


def heat_map(counts: LabelCounts) -> HeatMap:
    """The map, largest clients first; of many clients a few, evenly chosen."""
    largest_first = np.argsort(-counts.sizes, kind="stable")
    chosen = largest_first[evenly_spaced(len(largest_first), MAX_CLIENTS)]
    samples = counts.samples[chosen]
    wide = len(chosen) > NARROW // COLUMN
    tops = _tops(int(samples.max()))

    clients = [cut(name) for name in np.asarray(counts.clients, object)[chosen]]
    labels = [cut(label) for label in counts.labels] or ["samples"]
    width = WIDE if wide else NARROW
    picture = _picture(samples, clients, labels, tops, width)
    return HeatMap(picture, _caption(counts, len(chosen)), wide, _legend(tops))


def _caption(counts: LabelCounts, drawn: int) -> str:
    """How many samples there are, and what columns and rows are.

    Args:
      counts: samples per client and label.
      drawn: how many clients the map shows.
    """
    sizes = counts.sizes
    median = int(np.median(sizes))
    spread = f"{sizes.min():,} to {sizes.max():,} per client, median {median:,}"
    columns = f"{len(sizes)} clients"
    if drawn < len(sizes):
        columns = f"{drawn} of {len(sizes):,} clients, evenly chosen"
    rows = "labels" if counts.labels else "all"
    return f"{sizes.sum():,} samples; {spread}. Columns: {columns}, largest first; rows: {rows}."


def cut(name: Any, most: int = CUT) -> str:
    """A name with at most so many characters; its middle is cut, since many differ at the end.

    >>> cut("hospital of Saint Anne 7", 12), cut(7)
    ('hospit…nne 7', '7')
    """
    text = str(name)
    if len(text) <= most:
        return text
    start = text[: most // 2]
    end = text[len(text) - (most - 1) // 2 :]
    return f"{start}…{end}"


def _tops(most: int) -> list[int]:
    """The largest number of samples of every shade; they grow like squares, at least by one.

    >>> _tops(36), _tops(2)
    ([1, 4, 9, 16, 25, 36], [1, 2])
    """
    if not most:
        return []
    tops = set()
    for k in range(1, SHADES + 1):
        square = -(-most * k * k // SHADES**2)  # rounded up
        tops.add(max(square, 1))
    return sorted(tops)


def _legend(tops: list[int]) -> list[tuple[str, str]]:
    """The class of every shade, and the samples that it stands for."""
    palest = SHADES - len(tops) + 1  # few samples take the darker shades
    spans = [("h0", "none")]
    low = 1
    for shade, top in enumerate(tops, palest):
        span = f"{low:,}"
        if top > low:
            span += f" to {top:,}"
        spans.append((f"h{shade}", span))
        low = top + 1
    return spans


def _picture(
    samples: np.ndarray, clients: list[str], labels: list[str], tops: list[int], width: int
) -> Markup:
    """The map as SVG.

    Args:
      samples: `[clients, labels]`.
      clients: names of the columns.
      labels: names of the rows.
      tops: the largest number of samples of every shade.
      width: of the picture.
    """
    columns, rows = samples.shape
    left = 14 + LABEL * max(map(len, labels))
    cell = (width - left - 2) / columns
    high = min(24.0, max(360 / rows, 3.0))
    bottom = high * rows

    longest = max(map(len, clients))
    flat = longest * LETTER < cell - 2
    foot = 18 if flat else 12 + CLIENT * longest

    return element(
        "svg",
        element("rect", class_="h0", x=left, y="0", width=cell * columns, height=bottom),
        *_cells(samples, tops, left, cell, high),
        *_row_names(labels, left, high),
        *_column_names(clients, left, cell, bottom, flat),
        viewBox=f"0 0 {width} {bottom + foot:.0f}",
        class_="heat",
        role="img",
        aria_label="samples by client and label",
    )


def _cells(
    samples: np.ndarray, tops: list[int], left: int, cell: float, high: float
) -> list[Markup]:
    """A path for every shade: the outline of all its cells.

    Args:
      samples: `[clients, labels]`.
      tops: the largest number of samples of every shade.
      left: where the first column begins.
      cell: width of a column.
      high: height of a row.
    """
    shades = np.zeros(samples.shape, int)
    if tops:
        palest = SHADES - len(tops) + 1
        shades = np.searchsorted(tops, samples) + palest
    shades = np.where(samples > 0, shades, 0)

    across = max(cell - 1, 0.5)
    down = max(high - 1, 0.5)
    outline = f"h{across:.1f}v{down:.1f}h-{across:.1f}z"
    paths = []
    for shade in range(1, SHADES + 1):
        drawn = ""
        for column, row in np.argwhere(shades == shade).tolist():
            drawn += f"M{left + column * cell:.1f} {row * high:.1f}{outline}"
        if drawn:
            paths.append(element("path", class_=f"h{shade}", d=drawn))
    return paths


def _row_names(labels: list[str], left: int, high: float) -> list[Markup]:
    """Names left of the rows, as many as do not touch."""
    fitting = max(int(high * len(labels) // 13), 1)
    names = []
    for row in evenly_spaced(len(labels), min(MAX_LABELS, fitting)):
        y = (row + 0.5) * high + 4
        names.append(element("text", labels[row], x=left - 6, y=y, text_anchor="end"))
    return names


def _column_names(
    clients: list[str], left: int, cell: float, bottom: float, flat: bool
) -> list[Markup]:
    """Names below the columns: flat where there is space, else upright, as many as do not touch."""
    names = []
    every = math.ceil(LINE / cell)
    for column, name in enumerate(clients):
        x = left + (column + 0.5) * cell
        if flat:
            names.append(element("text", name, x=x, y=bottom + 14, text_anchor="middle"))
        elif column % every == 0:
            upright = f"translate({x + 4:.1f} {bottom + 8:.1f}) rotate(-90)"
            names.append(element("text", name, transform=upright, text_anchor="end"))
    return names
