"""Still pictures of curves as SVG. Colours come from classes, so that dark mode and print choose
them; the script draws the same pictures again at the size of the screen.
"""

from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from fedsim.report.page.scales import Axis, axis, short
from fedsim.report.pictures.curves import Curve

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 14, 42
STRONG = 8  # curves with a colour of their own; the others are pale


def looks(names: Sequence[str], baseline: str | None = None) -> dict[str, str]:
    """The classes of every method's curve: a colour and a dash for the first ones and the baseline,
    pale for all others.

    >>> looks(["a", "b"])
    {'a': 's0 d0', 'b': 's1 d1'}
    >>> looks([*"abcdefghijk"], "k")["h"], looks([*"abcdefghijk"], "k")["k"]
    ('pale d3', 's7 d3')
    """
    strong = list(names[:STRONG])
    if baseline in names and baseline not in strong:
        strong[-1] = str(baseline)
    colours = {name: f"s{place} d{place % 4}" for place, name in enumerate(strong)}
    return {name: colours.get(name, f"pale d{place % 4}") for place, name in enumerate(names)}


def height_axis(panels: Sequence[Sequence[Curve]], share: bool) -> Axis:
    """The common axis of the panels of one metric."""
    ends = [float(end) for curves in panels for one in curves for end in (*one.low, *one.high)]
    return axis(ends, HEIGHT - BOTTOM, TOP, share)


def lines(
    curves: Sequence[Curve],
    looks: Mapping[str, str],
    label: str,
    y: Axis,
    number: int,
    target: float | None = None,
) -> Markup:
    """Curves against rounds, with bands.

    Args:
      curves: in the order of the result; the first is drawn last, above the others.
      looks: the classes of every method's line.
      label: for whoever cannot see it.
      y: the axis, which several pictures share.
      number: of the picture.
      target: a line across.
    """
    x = axis([float(r) for one in curves for r in one.rounds], LEFT, WIDTH - RIGHT, whole=True)
    frame = f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
    parts = [f'<clipPath id="clip{number}"><rect {frame}/></clipPath>', _grid(x, y)]
    parts.append(f'<g class="plot" clip-path="url(#clip{number})">')
    if target is not None:
        at = y.at(target)
        parts.append(
            f'<line class="target" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
    for curve in sorted(curves, key=lambda curve: -curve.place):
        rounds, mean, low, high = (
            part.tolist() for part in (curve.rounds, curve.mean, curve.low, curve.high)
        )
        band = list(zip([*rounds, *rounds[::-1]], [*high, *low[::-1]], strict=True))
        shape = f'<path class="band" d="{path(band, x, y)}Z"/>' if low != high and band else ""
        name = escape(curve.name)
        parts.append(f'<g class="series {looks[curve.name]}" data-name="{name}">{shape}')
        parts.append(
            f'<path class="line" d="{path(list(zip(rounds, mean, strict=True)), x, y)}"/></g>'
        )
    if target is not None:
        at, above = y.at(target), y.at(target) > TOP + 15  # whether there is room for the text
        parts.append(
            f'<text class="target" x="{LEFT + 4}" y="{at - 5 if above else at + 14:.1f}">target {target:g}</text>'
        )
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)} by round">'
    return Markup("".join([head, *parts, "</g></svg>"]))


def path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    """The `d` of a line through points.

    >>> path([(0, 0), (1, 1)], Axis(0, 1, 0, 10), Axis(0, 1, 10, 0))
    'M0 10L10 0'
    """
    return (
        "M" + "L".join(f"{_tenth(x.at(a))} {_tenth(y.at(b))}" for a, b in points) if points else ""
    )


def _grid(x: Axis, y: Axis) -> str:
    parts = ['<g class="axes">']
    for t in y.ticks():
        at = f"{y.at(t):.1f}"
        parts.append(f'<g class="tick"><line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
                     f'<text x="{LEFT - 6}" y="{y.at(t) + 4:.1f}" text-anchor="end">{short(t)}</text></g>')  # fmt: skip
    for t in x.ticks():
        parts.append(
            f'<text x="{x.at(t):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(t)}</text>'
        )
    at = f'x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}"'
    return "".join(
        [*parts, f'</g><text class="small name" {at} text-anchor="middle">rounds</text>']
    )


def _tenth(value: float) -> str:
    """A tenth of a unit is enough for the eye.

    >>> _tenth(1.04), _tenth(-0.04)
    ('1', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
