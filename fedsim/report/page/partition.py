"""The map of a partition on the page: a column per client, a row per label; more is darker."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.report.element import element
from fedsim.report.figures.drawing import style
from fedsim.report.figures.on_page import page_axes
from fedsim.report.figures.partition import draw_heat_map, spans_of, tops_of
from fedsim.report.series import by_variant
from fedsim.study.label_skew import LabelCounts, counts_of_rows, evenly_spaced

MAX_CLIENTS = 60  # columns
WIDE = 1120  # pixels of the picture's width
NARROW = 560
COLUMN = 18  # pixels of a column, at least, in a narrow picture
CUT = 18  # characters of a name, at most
LINE = 13  # pixels that a line of text takes
LETTER = 7.0  # pixels of a character


class HeatMap(NamedTuple):
    """The map, as the template takes it."""

    picture: Markup
    caption: str
    wide: bool  # whether it takes the full width of the page
    legend: list[tuple[Markup, str]]  # a sample of a shade, and its samples


def partition(table: pd.DataFrame | None) -> HeatMap | None:
    """The map of the first variation's partition."""
    if table is None:
        return None
    first = next(iter(by_variant(table).values()))
    return heat_map(counts_of_rows(first))


def heat_map(counts: LabelCounts) -> HeatMap:
    """The map, largest clients first; of many clients a few, evenly chosen."""
    largest_first = np.argsort(-counts.sizes, kind="stable")
    chosen = largest_first[evenly_spaced(len(largest_first), MAX_CLIENTS)]
    samples = counts.samples[chosen]
    wide = len(chosen) > NARROW // COLUMN

    clients = [cut(name) for name in np.asarray(counts.clients, object)[chosen]]
    labels = [cut(label) for label in counts.labels] or ["samples"]
    picture = _picture(samples, clients, labels, WIDE if wide else NARROW)
    legend = [(_sample(shade), text) for shade, text in spans_of(tops_of(int(samples.max())))]
    return HeatMap(picture, _caption(counts, len(chosen)), wide, legend)


def _caption(counts: LabelCounts, drawn: int) -> str:
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


def _picture(samples: np.ndarray, clients: list[str], labels: list[str], width: int) -> Markup:
    """The map.

    Args:
      samples: `[clients, labels]`.
    """
    from fedsim.report.figures.inline import PAGE_STYLE, inline

    left = round(14 + LETTER * max(map(len, labels)))
    cell = (width - left) / len(clients)
    longest = LETTER * max(map(len, clients))
    flat = longest < cell - 2
    high = round(len(labels) * min(24.0, max(360 / len(labels), 3.0)))
    bottom = 22 if flat else round(14 + longest)
    with style(PAGE_STYLE):
        axes = page_axes((width, high + bottom + 2), bottom=bottom, left=left, top=2, right=2)
        draw_heat_map(axes, samples, labels, named=max(high // LINE, 1))
        every = 1 if flat else int(np.ceil(LINE / cell))
        axes.set_xticks(range(0, len(clients), every), clients[::every])
        axes.tick_params(axis="x", labelrotation=0 if flat else 90)
        return inline(axes.figure, "samples by client and label", class_="heat")  # pyright: ignore


def _sample(shade: int) -> Markup:
    """A square in a shade, for the legend."""
    square = element("rect", class_=f"h{shade}", width="14", height="14")
    return element("svg", square, width="14", height="14", aria_hidden="true")
