"""Scores against what they cost: curves over what was spent so far, and the front.

The front are the methods that no other one beats in both score and cost.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context, axis_label
from fedsim.report.figures import marks
from fedsim.report.figures.cut import cut_up, within
from fedsim.report.figures.drawing import FOOT, GREY, PALE, SMALL, literal, sheet, style
from fedsim.report.figures.lines import Lower, lower_axis
from fedsim.report.figures.on_page import SIZES, page_axes, upright_ticks
from fedsim.report.figures.panels import Panel, by_method, fill
from fedsim.report.figures.rows import draw_rows
from fedsim.report.pictures.costs import (
    CostPicture,
    Point,
    cost_pictures,
    logarithmic,
    rows_of_targets,
)
from fedsim.report.pictures.curves import Curve, curve
from fedsim.report.results import Row
from fedsim.report.series import tracks
from fedsim.study.cost_axes import WAYS, CostAxis
from fedsim.study.summary import in_words

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HIGH = 1.55  # inches: height of the axes
BELOW = 0.4  # inches below each axes for its own scale
ROW = 0.15  # inches of a row of the panel of targets

# points of a number in the figure: from its mark to the right, and upwards until it is free
NUMBER_RIGHT = 2.5
NUMBER_UP = (1.5, -6.0, 7.0, -11.5, 12.5, -17.0, 18.0)
LETTER_WIDE = 3.4  # points of a letter of a number
LETTER_HIGH = 5.0


def figures_of_costs(
    axis: CostAxis, rows: Sequence[Row], rounds: pd.DataFrame | None, context: Context
) -> list["Figure"]:
    """A figure for every variation in which rows differ in what they cost.

    Args:
      rounds: the columns of `rounds.csv`; None: the front alone.
    """
    pictures = cost_pictures(axis, rows, "", context)
    return [_figure(picture, rounds, context) for picture in pictures if picture.drawn]


def _figure(picture: CostPicture, rounds: pd.DataFrame | None, context: Context) -> "Figure":
    keys = [marks.Key(point.rank, point.name, point.number) for point in picture.points]
    heights = [HIGH]
    if picture.shows_target:
        heights = [ROW * len(picture.points) + 0.1]
    if rounds is not None:
        heights.insert(0, HIGH)
    with style():
        note = _note(picture, rounds is not None, context)
        foot = FOOT + marks.legend_inches(keys)
        figure, axes = sheet(context.title, note, heights, foot, gap=BELOW)
        if rounds is not None:
            _draw_curves(axes[0], picture, rounds)
        if picture.shows_target:
            _draw_targets(axes[-1], picture, context)
        else:
            draw_front(axes[-1], picture)
            axes[-1].set_ylabel(axis_label(picture.metric))
        marks.legend(figure, keys)
        return figure


def _note(picture: CostPicture, curves: bool, context: Context) -> str:
    axis = picture.axis
    notes = []
    if picture.shows_target:
        target = context.target_of(picture.metric)
        below = f"{axis.noun} to {target}, median, 95 % interval, seeds that reached it"
    else:
        below = f"{context.score}, mean and 95 % interval"
    if curves:
        metric = in_words(picture.metric)
        notes.append(f"above: {metric}, mean and range over {picture.seeds} seeds")
        below = f"below: {below}"
    notes.append(below)
    if not picture.shows_target:
        beaten = "below or right of it" if axis.equal_time else "hollow"
        reason = f"another one has at least that score for no more {axis.noun}"
        notes.append(f"line: the front; {beaten}: {reason}")
    if picture.title:
        notes.append(picture.title)
    return "; ".join(notes)


def _draw_curves(axes: "Axes", picture: CostPicture, rounds: pd.DataFrame) -> None:
    way = WAYS[picture.way]
    over_rounds = [_curve(point, rounds, way.cumulative_columns) for point in picture.points]
    over_costs = []
    for each in filter(None, over_rounds):
        # nothing was spent at the start
        over_costs.append(each.over(each.spent(way.cumulative_columns), positive=True))
    drawn = [each for each in over_costs if len(each.rounds)]
    panel = Panel((picture.metric,), axis_label(picture.metric), drawn)
    for each, artists in zip(drawn, fill(axes, panel, True, False, marked=False), strict=True):
        artists[-1].set_label(literal(each.name))
    cut_up([axes], *by_method([panel]))
    most = [float(each.rounds[-1]) for each in drawn]
    spent = [float(number) for each in drawn for number in each.rounds]
    _lower(axes, picture.axis, spent, f"{way.words}{picture.axis.so_far}", logarithmic(most))


def _curve(point: Point, rounds: pd.DataFrame, spending: Sequence[str]) -> Curve | None:
    """The scores of a point over the rounds; None where they were not evaluated."""
    metric = str(point.row["metric"])
    rows = rounds["method"] == point.row["method"]
    if point.row.get("variant") and "variant" in rounds:
        rows &= rounds["variant"] == point.row["variant"]
    for track in tracks(pd.DataFrame(rounds[rows]), (metric, "test_loss", *spending)):
        if metric in track.values:
            return curve(track, metric, point.rank)._replace(name=point.name)
    return None


def _lower(axes: "Axes", axis: CostAxis, spent: Sequence[float], title: str, log: bool) -> None:
    """Set the axis of costs, from 0 on unless it is logarithmic."""
    numbers = spent if log else [0.0, *spent]
    lower_axis(axes, numbers, Lower(axis.table, title, log, tick=axis.tick))


def _draw_targets(axes: "Axes", picture: CostPicture, context: Context) -> None:
    """Draw what every method spent to the target, and how many seeds reached it."""
    drawn = rows_of_targets(picture, context)
    draw_rows(axes, drawn)
    axes.set_xlim(right=1.22 * drawn.span.high)
    axes.set_yticks(range(len(picture.points)), [str(point.number) for point in picture.points])
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_formatter(lambda value, _: picture.axis.tick(value))
    axes.set_xlabel(drawn.label.partition(":")[0])
    look = {"fontsize": SMALL - 1, "color": GREY, "ha": "right", "va": "center"}
    for row, point in enumerate(picture.points):
        axes.text(0.995, row, point.arrived, transform=axes.get_yaxis_transform(), **look)


def front_on_page(picture: CostPicture) -> Markup:
    """The front for the page, with the name and the numbers of every point for the pointer."""
    from fedsim.report.figures.inline import PAGE_STYLE, inline, tag

    with style(PAGE_STYLE):
        axes = page_axes(SIZES[1])
        for point, artists in draw_front(axes, picture, letters=2.2):
            title = f"{point.name}: {point.mean:.4g} at {picture.axis.tick(point.cost)}"
            tag(artists[-1], "point", title=title)
        upright_ticks(axes)
        label = f"{in_words(picture.metric)} by {picture.label}"
        return inline(axes.figure, label)  # pyright: ignore


def draw_front(
    axes: "Axes", picture: CostPicture, letters: float = 1.0
) -> list[tuple[Point, list["Artist"]]]:
    """Draw a point per method with its interval, and the front -> what each is, its mark last.

    Args:
      letters: how many times as large letters are as in a figure of a paper.
    """
    spent = [point.cost for point in picture.finite]
    _lower(axes, picture.axis, spent, picture.label, picture.log)
    steps = {"drawstyle": "steps-post", "color": GREY, "lw": 0.8, "zorder": 1.5}
    axes.plot(*zip(*picture.front, strict=True), label="front", **steps)
    drawn = []
    for point in picture.finite:
        look = _mark_of(point, picture)
        artists: list[Artist] = []
        if point.low is not None and point.high is not None and point.high > point.low:
            interval = {"color": look["color"], "lw": 0.8, "zorder": 2}
            artists += axes.plot([point.cost] * 2, [point.low, point.high], **interval)
        size = {"ms": 4 * letters**0.5, "mew": 0.5 * letters}
        artists += axes.plot([point.cost], [point.mean], label=literal(point.name), **look, **size)
        drawn.append((point, artists))

    cut_up([axes], picture.score_ends(), [point.name for point in picture.finite])
    _number(axes, picture, letters)
    return drawn


def _mark_of(point: Point, picture: CostPicture) -> dict[str, Any]:
    """A point in the colour that its method has everywhere; hollow where it is beaten.

    Along an axis of time all are filled.
    """
    filled = point.front or picture.axis.equal_time
    pale = point.rank >= marks.STRONG
    colour = PALE if pale and not filled else marks.colour_of(point.rank)
    return {
        "color": colour,
        "marker": "o" if pale else marks.MARKERS[point.rank],
        "markerfacecolor": colour if filled else "white",
        "ls": "",
        "zorder": 3 if filled else 2,
    }


def _number(axes: "Axes", picture: CostPicture, letters: float) -> None:
    """Write the number of every point beside it, where there is no other number."""
    ends = [(point, point.cost, point.mean) for point in picture.finite]
    at_same: dict[tuple[float, float], list[Point]] = {}
    for point, x, y in within(axes, ends):
        at_same.setdefault((x, y), []).append(point)

    taken: list[tuple[float, float, int]] = []  # where a text begins, and its letters
    for position, points in sorted(at_same.items()):
        text = ", ".join(str(point.number) for point in points)
        x, y = axes.transData.transform(position) * 72 / axes.figure.dpi / letters  # in points
        up = _free(x, y, len(text), taken)
        taken.append((x, y + up, len(text)))
        axes.annotate(
            text,
            position,
            xytext=(NUMBER_RIGHT * letters, up * letters),
            textcoords="offset points",
            annotation_clip=False,
            fontsize=SMALL - 1.5,
            color=marks.colour_of(points[0].rank),
            va="bottom",
        )


def _free(x: float, y: float, letters: int, taken: Sequence[tuple[float, float, int]]) -> float:
    """How many points above its mark a text is free of others; as near as possible."""
    for up in NUMBER_UP:
        if not any(_overlap((x, y + up, letters), other) for other in taken):
            return up
    return NUMBER_UP[0]


def _overlap(one: tuple[float, float, int], other: tuple[float, float, int]) -> bool:
    """Whether two texts overlap: x and y in points where each begins, and its letters."""
    x, y, letters = one
    other_x, other_y, other_letters = other
    return (
        abs(y - other_y) < LETTER_HIGH
        and x < other_x + LETTER_WIDE * other_letters
        and other_x < x + LETTER_WIDE * letters
    )
