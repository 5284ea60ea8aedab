"""Still pictures of curves as SVG.

Colours come from classes, so that dark mode and print choose them. The script of the page draws the
same pictures again at the size of the screen.
"""

from collections.abc import Sequence

from fedsim.report.page.scales import Axis

WIDTH = 560
HEIGHT = 300
# margins
LEFT = 54
RIGHT = 14
TOP = 14
BOTTOM = 42


def path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    """The `d` of a line through points.

    >>> path([(0, 0), (1, 1)], Axis(0, 1, 0, 10), Axis(0, 1, 10, 0))
    'M0 10L10 0'
    """
    if not points:
        return ""
    corners = [f"{_tenth(x.at(a))} {_tenth(y.at(b))}" for a, b in points]
    return "M" + "L".join(corners)


def _tenth(value: float) -> str:
    """A number rounded to a tenth, as briefly as possible.

    >>> _tenth(1.04), _tenth(-0.04)
    ('1', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    if text == "-0":
        return "0"
    return text
