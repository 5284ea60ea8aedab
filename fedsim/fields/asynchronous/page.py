"""How old the messages of asynchronous schedules are, on the page: a histogram per method."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.scales import Axis, short
from fedsim.report.page.sources import Source, tables_of
from fedsim.report.page.svg import element, level_grid
from fedsim.report.pictures.looks import colour_class
from fedsim.report.series import by_variant

WIDTH = 560
HIGH = 180
LEFT = 46
RIGHT = 14
TOP = 8
BOTTOM = 40
FOOT = HIGH - BOTTOM  # where the bars stand
BARS = 50  # at most; a bar may stand for several ages


class Histogram(NamedTuple):
    """The ages of a method's messages.

    Attributes:
      title: method and variation.
      colour: class of the method's colour.
      shares: of the messages, by bar.
      mean: age.
      wide: how many ages a bar stands for.
    """

    title: str
    colour: str
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
    """A picture for every method and variation that has ages; none without a table.

    Args:
      table: the columns of `staleness.csv`.
      context: what is shown.
    """
    if table is None:
        return []
    counts = []  # title, class of the colour, and messages by age
    for variant, rows in by_variant(table).items():
        present = set(rows["method"])
        for method in context.order:
            if method not in present:
                continue
            title = ", ".join(filter(None, (method, context.words(variant))))
            messages = rows[rows["method"] == method].groupby("age")["messages"].sum()
            counts.append((title, colour_class(context.rank_of(method)), messages))

    oldest = 0
    for _, _, messages in counts:
        oldest = max(oldest, int(max(messages.index)))
    wide = -(-(oldest + 1) // BARS)
    drawn = []
    largest = 0.0  # share of all bars
    for title, colour, messages in counts:
        histogram = _histogram(title, colour, messages, wide, oldest)
        drawn.append(histogram)
        largest = max(largest, float(histogram.shares.max()))

    shown = []
    for histogram in drawn:
        title = f"{histogram.title}: {histogram.mean:.3g} on average"
        shown.append({"title": title, "picture": _picture(histogram, largest)})
    return shown


def _histogram(title: str, colour: str, messages: pd.Series, wide: int, oldest: int) -> Histogram:
    """Bars of one method.

    Args:
      title: method and variation.
      colour: class of the method's colour.
      messages: how many there are of every age.
      wide: how many ages a bar stands for.
      oldest: the largest age of all methods.
    """
    ages = np.asarray(messages.index, int)
    counts = np.asarray(messages, float)
    total = max(counts.sum(), 1)
    bars = np.zeros(oldest // wide + 1)
    np.add.at(bars, ages // wide, counts)
    mean = float(ages.astype(float) @ counts / total)
    return Histogram(title, colour, bars / total, mean, wide)


def _picture(histogram: Histogram, largest: float) -> Markup:
    """The bars; the upright axis goes a little above the largest share of all histograms."""
    wide = histogram.wide
    x = Axis(0.0, float(len(histogram.shares) * wide), LEFT, WIDTH - RIGHT)
    y = Axis(0.0, 1.05 * largest or 1.0, FOOT, TOP)
    elements = [_axes(x, y, wide)]
    for index, share in enumerate(histogram.shares.tolist()):
        elements.append(_bar(index * wide, share, histogram, x, y))
    return element(
        "svg",
        *elements,
        viewBox=f"0 0 {WIDTH} {HIGH}",
        role="img",
        aria_label=f"{histogram.title}: share of the messages by age",
    )


def _axes(x: Axis, y: Axis, wide: int) -> Markup:
    """Both axes with their ticks, and the name of the lower one."""
    elements = level_grid(y, y.ticks(4), LEFT, WIDTH - RIGHT)
    middle_of_bar = 0.5 if wide == 1 else 0.0
    inside = [tick for tick in x.ticks() if tick < x.high]
    for age in sorted(set(map(round, inside))):
        middle = x.at(age + middle_of_bar)
        elements.append(element("text", short(age), x=middle, y=FOOT + 16, text_anchor="middle"))
    label = "steps of the server since it sent the model"
    middle = (LEFT + WIDTH - RIGHT) / 2
    elements.append(element("text", label, x=middle, y=HIGH - 6, text_anchor="middle"))
    return element("g", *elements, class_="axes")


def _bar(age: int, share: float, histogram: Histogram, x: Axis, y: Axis) -> Markup:
    """The messages of an age, or of several ages from that one on."""
    wide = histogram.wide
    ages = f"{age}"
    if wide > 1:
        ages += f" to {age + wide - 1}"
    begin = x.at(age)
    end = x.at(age + wide)
    top = y.at(share)
    bar = element(
        "rect",
        class_="share",
        x=begin + 0.5,
        y=top,
        width=max(end - begin - 1, 0.5),
        height=FOOT - top,
    )
    title = element("title", f"{ages}: {share:.2%} of the messages")
    return element("g", title, bar, class_=histogram.colour)
