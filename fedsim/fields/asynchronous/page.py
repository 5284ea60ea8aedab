"""How old the messages of asynchronous schedules are, on the page: a histogram per method."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures.drawing import style
from fedsim.report.figures.lines import Lower, lower_axis
from fedsim.report.figures.marks import colour_of
from fedsim.report.figures.on_page import page_axes, upright_ticks
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.sources import Source, tables_of
from fedsim.report.series import by_variant

SIZE = (560, 190)  # pixels of a picture
BARS = 50  # at most; a bar may stand for several ages


class Histogram(NamedTuple):
    """The ages of a method's messages.

    Attributes:
      rank: of the method, which decides its colour.
      shares: of the messages, by bar.
      wide: how many ages a bar stands for.
    """

    title: str
    rank: int
    shares: np.ndarray
    mean: float
    wide: int


def section(sources: Sequence[Source], context: Context) -> Section | None:
    """The ages of messages; None without any."""
    shown = histograms(tables_of(sources, "staleness"), context)
    if not shown:
        return None
    html = fragment(files("fedsim.fields.asynchronous").joinpath("section.html"), histograms=shown)
    return Section("staleness", "Staleness", [], html, first=False)


def histograms(table: pd.DataFrame | None, context: Context) -> list[dict[str, Any]]:
    """A picture for every method and variation that has ages; none without a table."""
    if table is None:
        return []
    counts = []  # title, rank, and messages by age
    for variant, rows in by_variant(table).items():
        present = set(rows["method"])
        for method in context.order:
            if method not in present:
                continue
            title = ", ".join(filter(None, (method, context.words(variant))))
            messages = rows[rows["method"] == method].groupby("age")["messages"].sum()
            counts.append((title, context.rank_of(method), messages))

    oldest = 0
    for _, _, messages in counts:
        oldest = max(oldest, int(max(messages.index)))
    wide = -(-(oldest + 1) // BARS)
    drawn = []
    largest = 0.0  # share of all bars
    for title, rank, messages in counts:
        histogram = _histogram(title, rank, messages, wide, oldest)
        drawn.append(histogram)
        largest = max(largest, float(histogram.shares.max()))

    shown = []
    for histogram in drawn:
        title = f"{histogram.title}: {histogram.mean:.3g} on average"
        shown.append({"title": title, "picture": _picture(histogram, largest)})
    return shown


def _histogram(title: str, rank: int, messages: pd.Series, wide: int, oldest: int) -> Histogram:
    ages = np.asarray(messages.index, int)
    counts = np.asarray(messages, float)
    total = max(counts.sum(), 1)
    bars = np.zeros(oldest // wide + 1)
    np.add.at(bars, ages // wide, counts)
    mean = float(ages.astype(float) @ counts / total)
    return Histogram(title, rank, bars / total, mean, wide)


def _picture(histogram: Histogram, largest: float) -> Markup:
    """The bars; the upright axis goes a little above the largest share of all histograms."""
    from fedsim.report.figures.inline import PAGE_STYLE, inline, tag

    wide = histogram.wide
    begins = wide * np.arange(len(histogram.shares))
    align = "center" if wide == 1 else "edge"
    look = {"color": colour_of(histogram.rank), "lw": 0, "align": align}
    with style(PAGE_STYLE):
        axes = page_axes(SIZE)
        bars = axes.bar(begins, histogram.shares, width=0.96 * wide, **look)
        for begin, share, bar in zip(begins.tolist(), histogram.shares, bars, strict=True):
            ages = f"{begin}"
            if wide > 1:
                ages += f" to {begin + wide - 1}"
            tag(bar, "share", title=f"{ages}: {share:.2%} of the messages")
        begin, last = (-0.5, begins[-1] + 0.5) if wide == 1 else (0.0, begins[-1] + wide)
        label = "steps of the server since it sent the model"
        lower_axis(axes, [begin, float(last)], Lower("age", label, whole=True))
        upright_ticks(axes)
        axes.set_ylim(0, 1.05 * largest or 1.0)
        label = f"{histogram.title}: share of the messages by age"
        return inline(axes.figure, label)  # pyright: ignore
