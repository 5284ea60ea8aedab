"""Elements of HTML and SVG as safe markup; numbers are rounded to a tenth of a unit."""

from typing import Any

from markupsafe import Markup, escape

SHAPES = {"circle", "line", "path", "rect"}  # elements without content


def element(name: str, *content: str, **attributes: Any) -> Markup:
    """An element; text that is not markup is escaped.

    Args:
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


def breakable(name: str) -> Markup:
    """A name that may be broken before a bracket and after a low line.

    >>> breakable("multi_krum(f=6)<b>")
    Markup('multi_<wbr>krum<wbr>(f=6)&lt;b&gt;')
    """
    return Markup(str(escape(name)).replace("_", "_<wbr>").replace("(", "<wbr>("))


def _key(name: str) -> str:
    return name.removesuffix("_").replace("_", "-")


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    return str(escape(value))
