"""Still pictures of curves as SVG.

Colours come from classes, so that dark mode and print choose them. The script of the page draws the
same pictures again at the size of the screen.
"""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from fedsim.report.page.scales import Axis, axis, short
from fedsim.report.page.svg import element
from fedsim.report.pictures.curves import Curve

WIDTH = 560
HEIGHT = 300
# margins
LEFT = 54
RIGHT = 14
TOP = 14
BOTTOM = 42


def height_axis(panels: Sequence[Sequence[Curve]], share: bool) -> Axis:
    """The common axis of all panels of one metric."""
    ends: list[float] = []
    for curves in panels:
        for curve in curves:
            ends += curve.low.tolist()
            ends += curve.high.tolist()
    return axis(ends, HEIGHT - BOTTOM, TOP, share)


def curves_picture(
    curves: Sequence[Curve],
    classes: Mapping[str, str],
    label: str,
    y: Axis,
    chart: int,
    target: float | None = None,
) -> Markup:
    """Curves over the rounds, with bands.

    Args:
      curves: in the order of the result; the first is drawn last, above the others.
      classes: the classes of every method's curve.
      label: for readers who cannot see the picture.
      y: the axis that all pictures of the metric share.
      chart: the number of the picture on the page.
      target: the score to reach, a line across the picture.
    """
    rounds = [float(number) for curve in curves for number in curve.rounds]
    x = axis(rounds, LEFT, WIDTH - RIGHT, exact=True)

    last_first = sorted(curves, key=lambda curve: curve.rank, reverse=True)
    drawn = [_series(curve, classes[curve.name], x, y) for curve in last_first]
    if target is not None:
        label_above = _space_above(y.at(target), _end_heights(curves, x, y))
        line = _target_line(y.at(target))
        drawn = [line, *drawn, _target_label(target, y.at(target), label_above)]

    frame = element("rect", x=LEFT, y=TOP, width=WIDTH - LEFT - RIGHT, height=HEIGHT - TOP - BOTTOM)
    clip = f"clip{chart}"
    return element(
        "svg",
        element("clipPath", frame, id=clip),
        *_grid(x, y),
        element("g", *drawn, class_="plot", clip_path=f"url(#{clip})"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{label} by round",
    )


def _series(curve: Curve, classes: str, x: Axis, y: Axis) -> Markup:
    """The line of a method, above the band between the lowest and the highest seed."""
    rounds = curve.rounds.tolist()
    mean = curve.mean.tolist()
    low = curve.low.tolist()
    high = curve.high.tolist()

    elements = []
    if low != high and rounds:
        upper = zip(rounds, high, strict=True)
        lower = zip(rounds[::-1], low[::-1], strict=True)
        elements.append(element("path", class_="band", d=f"{path([*upper, *lower], x, y)}Z"))
    line = path(list(zip(rounds, mean, strict=True)), x, y)
    elements.append(element("path", class_="line", d=line))
    return element("g", *elements, class_=f"series {classes}", data_name=curve.name)


def _target_line(height: float) -> Markup:
    return element("line", class_="target", x1=LEFT, x2=WIDTH - RIGHT, y1=height, y2=height)


def _target_label(target: float, height: float, above: bool) -> Markup:
    """The target's name at the right end of its line, above or below it."""
    return element(
        "text",
        f"target {target:g}",
        class_="target",
        x=WIDTH - RIGHT - 4,
        y=height - 5 if above else height + 14,
        text_anchor="end",
    )


def _end_heights(curves: Sequence[Curve], x: Axis, y: Axis) -> list[float]:
    """The heights of the curves that reach the right end of the picture."""
    right = LEFT + 0.8 * (WIDTH - LEFT - RIGHT)
    return [y.at(curve.mean[-1]) for curve in curves if x.at(curve.rounds[-1]) >= right]


def _space_above(height: float, ends: Sequence[float]) -> bool:
    """Whether there is more space above a line than below it, at the right end of the picture.

    Args:
      height: of the line.
      ends: heights of curves.
    """
    above = min([height - TOP, *(height - end for end in ends if end <= height)])
    below = min([HEIGHT - BOTTOM - height, *(end - height for end in ends if end > height)])
    return above >= below


def path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    """The `d` of a line through points.

    >>> path([(0, 0), (1, 1)], Axis(0, 1, 0, 10), Axis(0, 1, 10, 0))
    'M0 10L10 0'
    """
    if not points:
        return ""
    return "M" + "L".join(f"{_tenth(x.at(a))} {_tenth(y.at(b))}" for a, b in points)


def _grid(x: Axis, y: Axis) -> list[Markup]:
    """Both axes with their ticks, and the name of the lower one, which the script changes."""
    labels = []
    for tick in y.ticks():
        height = y.at(tick)
        line = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=height, y2=height)
        label = element("text", short(tick), x=LEFT - 6, y=height + 4, text_anchor="end")
        labels.append(element("g", line, label, class_="tick"))
    for tick in x.ticks():
        below = HEIGHT - BOTTOM + 16
        labels.append(element("text", short(tick), x=x.at(tick), y=below, text_anchor="middle"))

    middle = (LEFT + WIDTH - RIGHT) / 2
    name = element(
        "text", "rounds", class_="small name", x=middle, y=HEIGHT - 8, text_anchor="middle"
    )
    return [element("g", *labels, class_="axes"), name]


def _tenth(value: float) -> str:
    """A number rounded to a tenth, as briefly as possible.

    >>> _tenth(1.04), _tenth(-0.04)
    ('1', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
