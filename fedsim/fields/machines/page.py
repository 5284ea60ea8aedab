"""What the clients of one round do and when, on the page: a Gantt chart with a bar per client."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import pandas as pd
from markupsafe import Markup

from fedsim.fields.machines.panels import LOST, WHY, WORDS, Bar, Panel, omissions, panels
from fedsim.report.context import Context
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.scales import Axis, short
from fedsim.report.page.sources import Source, only_table
from fedsim.report.page.svg import element

WIDTH = 560
LEFT = 8
RIGHT = 14
TOP = 6
BOTTOM = 40
ROW = 9  # units of a row, at most
HIGH = 360  # units of all rows together, at most


def section(sources: Sequence[Source], context: Context) -> Section | None:
    """A picture per method, one for methods that share it; None where times do not differ.

    Args:
      sources: runs; of several at once, nothing is drawn.
      context: what is shown.
    """
    content = shown(only_table(sources, "machines"), context.order)
    if content is None:
        return None
    html = fragment(files("fedsim.fields.machines").joinpath("section.html"), **content)
    return Section("machines", "Machines", [], html, first=False)


def shown(table: pd.DataFrame | None, names: Sequence[str]) -> dict[str, Any] | None:
    """What the section shows; None where times do not differ.

    Args:
      table: the columns of `machines.csv`.
      names: methods in the order of the result.
    """
    if table is None:
        return None
    drawn = panels(table, list(names))
    longest = max((panel.seconds for panel in drawn), default=0.0)
    if not longest > 0:
        return None

    pictures = []
    outcomes = set()
    for panel in drawn:
        title = ", ".join(panel.names)
        pictures.append({"title": title, "about": panel.about, "picture": _picture(panel, longest)})
        outcomes |= {bar.outcome for bar in panel.bars}

    marks = []
    for outcome, words in LOST.items():
        if outcome in outcomes:
            marks.append((outcome, words, _symbol(outcome)))
    return {
        "panels": pictures,
        "omissions": [WHY, *omissions(table, list(names))],
        "phases": [*WORDS.items()],
        "marks": marks,
    }


def _picture(panel: Panel, longest: float) -> Markup:
    """The bars of a panel; time goes from 0 to the end of the longest panel."""
    row = min(float(ROW), HIGH / panel.rows)
    foot = TOP + row * panel.rows
    x = Axis(0.0, 1.02 * longest, LEFT, WIDTH - RIGHT)

    elements = [_axis(x, foot)]
    for bar in panel.bars:
        elements.append(_bar(bar, x, TOP + row * bar.row, row))
    step_class = "step" if panel.flights else "step end"
    for seconds in panel.steps:
        at = x.at(seconds)
        elements.append(element("line", class_=step_class, x1=at, x2=at, y1=TOP - 4, y2=foot))
    return element(
        "svg",
        *elements,
        viewBox=f"0 0 {WIDTH} {foot + BOTTOM:.0f}",
        role="img",
        aria_label=f"{', '.join(panel.names)}: what clients do when; {panel.about}",
    )


def _axis(x: Axis, foot: float) -> Markup:
    """Upright lines at round times, and their labels below the bars."""
    elements = []
    for tick in x.ticks():
        at = x.at(tick)
        line = element("line", x1=at, x2=at, y1=TOP, y2=foot)
        elements.append(element("g", line, class_="tick"))
        elements.append(element("text", short(tick), x=at, y=foot + 16, text_anchor="middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    elements.append(element("text", "virtual seconds", x=middle, y=foot + 34, text_anchor="middle"))
    return element("g", *elements, class_="axes")


def _bar(bar: Bar, x: Axis, top: float, row: float) -> Markup:
    """The phases of a client's work, and a mark where its message does not count."""
    elements = [element("title", f"client {bar.client}: {bar.outcome}, {bar.end:.3g} s")]
    for phase, begin, end in bar.phases:
        width = max(x.at(end) - x.at(begin), 0.3)
        y = top + 0.11 * row
        elements.append(
            element("rect", class_=phase, x=x.at(begin), y=y, width=width, height=0.78 * row)
        )
    if bar.outcome not in LOST:
        return element("g", *elements, class_="work")
    mark = _shape(bar.outcome, x.at(bar.end), top + row / 2, 0.4 * row)
    return element("g", *elements, element("path", d=mark), class_="work lost")


def _shape(outcome: str, x: float, y: float, half: float) -> str:
    """The path of a mark.

    A cross for a client that left, a bar for one that is late, a circle for one that is not needed.

    Args:
      outcome: why the message does not count.
      x: middle of the mark.
      y: likewise.
      half: half of its width and height.
    """
    full = 2 * half
    if outcome == "left":
        falling = f"M{x - half:.1f} {y - half:.1f}l{full:.1f} {full:.1f}"
        rising = f"m0 {-full:.1f}l{-full:.1f} {full:.1f}"
        return falling + rising
    if outcome == "late":
        return f"M{x:.1f} {y - half:.1f}v{full:.1f}"
    arc = f"a{half:.1f} {half:.1f} 0 1 0"
    return f"M{x - half:.1f} {y:.1f}{arc} {full:.1f} 0{arc} {-full:.1f} 0"


def _symbol(outcome: str) -> Markup:
    """The mark, for a legend."""
    mark = element("path", d=_shape(outcome, 8, 7, 4))
    return element(
        "svg", element("g", mark, class_="work"), width="16", height="14", aria_hidden="true"
    )
