"""Elements of SVG as safe markup; numbers are rounded to a tenth of a unit."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from fedsim.report.page.scales import Axis, short

SHAPES = {"circle", "line", "path", "rect"}  # elements without content


def element(name: str, *content: str, **attributes: Any) -> Markup:
    """An element; text that is not markup is escaped.

    Args:
      name: the element's name.
      content: text and elements inside of it; shapes have none.
      attributes: by name, with a low line for a hyphen; `class_` is `class`.

    >>> element("text", "a < b", x=2.04, text_anchor="end")
    Markup('<text x="2.0" text-anchor="end">a &lt; b</text>')
    >>> element("g", element("rect", class_="h0", width=7), element("rect"))
    Markup('<g><rect class="h0" width="7"/><rect/></g>')
    """
    head = ""
    for key, value in attributes.items():
        head += f' {_key(key)}="{_value(value)}"'
    if name in SHAPES:
        return Markup(f"<{name}{head}/>")
    inside = Markup("").join(content)
    return Markup(f"<{name}{head}>{inside}</{name}>")


def _key(name: str) -> str:
    return name.removesuffix("_").replace("_", "-")


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    return str(escape(value))


def level_grid(y: Axis, ticks: Sequence[float], left: float, right: float) -> list[Markup]:
    """A level line for every tick of an upright axis, and its label to the left of it.

    Args:
      y: the axis.
      ticks: the numbers that have a line.
      left: where the lines begin.
      right: where they end.
    """
    elements = []
    for tick in ticks:
        height = y.at(tick)
        line = element("line", x1=left, x2=right, y1=height, y2=height)
        elements.append(element("g", line, class_="tick"))
        elements.append(element("text", short(tick), x=left - 6, y=height + 4, text_anchor="end"))
    return elements
