"""Scores against what they cost: curves over what was spent so far, and the front.

The front are the methods that no other one beats in both score and cost.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context, axis_label
from fedsim.report.figures.cost_panels import band, course
from fedsim.report.figures.cut import cut_up, within
from fedsim.report.figures.drawing import COLOURS, FOOT, GREY, PALE, SMALL, literal, sheet, style
from fedsim.report.figures.marks import DASHES, LEGEND_LINE, MARKERS, STRONG
from fedsim.report.figures.on_page import SIZES, page_axes, upright_ticks
from fedsim.report.figures.rows import draw_rows
from fedsim.report.pictures.costs import (
    CostPicture,
    Point,
    cost_pictures,
    logarithmic,
    rows_of_targets,
)
from fedsim.report.results import Row
from fedsim.study.cost_axes import WAYS, CostAxis
from fedsim.study.summary import in_words

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HIGH = 1.55  # inches: height of the axes
BELOW = 0.4  # inches below each axes for its own scale
LETTERS = 64  # of a name in the legend, alone in its line
HALF = 27  # of a name in the legend, two in a line
ROW = 0.15  # inches of a row of the panel of targets

# points of a number in the figure: from its mark to the right, and upwards until it is free
NUMBER_RIGHT = 2.5
NUMBER_UP = (1.5, -6.0, 7.0, -11.5, 12.5, -17.0, 18.0)
LETTER_WIDE = 3.4  # points of a letter of a number
LETTER_HIGH = 5.0


class Look(NamedTuple):
    """How a method is drawn.

    Attributes:
      colour: of line and mark.
      marker: of its points.
      dash: of its line.
      strong: whether it has a colour of its own.
      filled: whether its mark is filled, and its line wide; not so for those that are beaten.
    """

    colour: str
    marker: str
    dash: Any
    strong: bool
    filled: bool

    @property
    def mark(self) -> dict[str, Any]:
        """Colour and marker, as matplotlib takes them."""
        look: dict[str, Any] = {"color": self.colour, "marker": self.marker}
        if not self.filled:
            look["markerfacecolor"] = "white"
        return look


Looks = Mapping[int, Look]
"""looks by the number of a point"""


def figures_of_costs(
    axis: CostAxis, rows: Sequence[Row], rounds: pd.DataFrame | None, context: Context
) -> list["Figure"]:
    """A figure for every variation in which rows differ in what they cost.

    Args:
      axis: what is counted.
      rows: of its table.
      rounds: the columns of `rounds.csv`; None: the front alone.
      context: what is shown.
    """
    pictures = cost_pictures(axis, rows, "", context)
    return [_figure(picture, rounds, context) for picture in pictures if picture.drawn]


def _figure(picture: CostPicture, rounds: pd.DataFrame | None, context: Context) -> "Figure":
    points = picture.points
    looks = _looks(picture)
    longest = max(len(point.name) for point in points)
    side_by_side = 2 if longest <= HALF else 1
    legend = LEGEND_LINE * -(-len(points) // side_by_side) + 0.08

    heights = [HIGH]
    if picture.shows_target:
        heights = [ROW * len(points) + 0.1]
    if rounds is not None:
        heights.insert(0, HIGH)
    with style():
        note = _note(picture, rounds is not None, context)
        figure, axes = sheet(context.title, note, heights, FOOT + legend, gap=BELOW)
        if rounds is not None:
            _curves(axes[0], picture, looks, rounds)
        of_scores = axes
        if picture.shows_target:
            _targets(axes[-1], picture, context)
            of_scores = axes[:1]
        else:
            _front(axes[-1], picture, looks)
        for panel in of_scores:
            panel.set_ylabel(axis_label(picture.metric))
        _legend(figure, points, looks, side_by_side)
        return figure


def _note(picture: CostPicture, curves: bool, context: Context) -> str:
    """The small print.

    Args:
      picture: what is drawn.
      curves: whether there are curves above.
      context: what is shown.
    """
    axis = picture.axis
    notes = []
    if picture.shows_target:
        target = context.target_of(picture.metric)
        below = f"{axis.noun} to {target}, median, 95 % interval, seeds that reached it"
    else:
        below = f"{context.score}, mean and 95 % interval"
    if curves:
        spread = "95 % interval" if axis.equal_time else "range"
        metric = in_words(picture.metric)
        notes.append(f"above: {metric}, mean and {spread} over {picture.seeds} seeds")
        below = f"below: {below}"
    notes.append(below)
    if not picture.shows_target:
        beaten = "below or right of it" if axis.equal_time else "hollow"
        reason = f"another one has at least that score for no more {axis.noun}"
        notes.append(f"line: the front; {beaten}: {reason}")
    if picture.title:
        notes.append(picture.title)
    return "; ".join(notes)


def _looks(picture: CostPicture) -> dict[int, Look]:
    """How every point is drawn, by its number: in the colour that its method has everywhere.

    Along an axis of time all are filled, else those of the front.
    """
    return {point.number: _look(point, picture) for point in picture.points}


def _look(point: Point, picture: CostPicture) -> Look:
    filled = point.front or picture.axis.equal_time
    if point.rank >= STRONG:
        colour = GREY if filled else PALE
        return Look(colour, "o", "-", strong=False, filled=filled)
    return Look(
        colour=COLOURS[point.rank],
        marker=MARKERS[point.rank],
        dash=DASHES[point.rank % len(DASHES)],
        strong=True,
        filled=filled,
    )


def _curves(axes: "Axes", picture: CostPicture, looks: Looks, rounds: pd.DataFrame) -> None:
    """Draw the score over what was spent so far, at rounds that all seeds have."""
    axis = picture.axis
    starts = []
    ends = []
    scores = []  # of every curve
    names = []
    for point in picture.points:
        x, y = course(axis, point.row, rounds, picture.way)
        if not len(x):
            continue
        look = looks[point.number]
        width = {"lw": 1.2, "zorder": 3} if look.filled else {"lw": 0.7, "zorder": 2}
        mean = y.mean(1)
        line = {"color": look.colour, "linestyle": look.dash, **width}
        axes.plot(x, mean, label=literal(point.name), **line)
        if look.strong and look.filled and y.shape[1] > 2:
            axes.fill_between(x, *band(axis, y), color=look.colour, alpha=0.13, lw=0)
        scores.append(y.ravel().tolist())
        names.append(point.name)
        starts.append(float(x[0]))
        ends.append((point, float(x[-1]), float(mean[-1])))

    cut_up([axes], scores, names)
    spent = [x for _, x, _ in ends]
    _scale(axis, axes, most=spent, least=starts)
    label = f"{WAYS[picture.way].words}{axis.so_far}"
    if axes.get_xscale() == "log":
        label += ", log"
    axes.set_xlabel(label)
    if len(ends) <= STRONG:  # more would lie on each other; their colours tell them apart
        _numbers(axes, looks, ends)


def _targets(axes: "Axes", picture: CostPicture, context: Context) -> None:
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
        for point, artists in _front(axes, picture, _looks(picture), letters=2.2):
            title = f"{point.name}: {point.mean:.4g} at {picture.axis.tick(point.cost)}"
            tag(artists[-1], "point", title=title)
        upright_ticks(axes)
        label = f"{in_words(picture.metric)} by {picture.label}"
        return inline(axes.figure, label)  # pyright: ignore


def _front(
    axes: "Axes", picture: CostPicture, looks: Looks, letters: float = 1.0
) -> list[tuple[Point, list["Artist"]]]:
    """Draw a point per method with the interval of its mean, and steps along the front.

    Args:
      axes: to draw in.
      picture: what is drawn.
      looks: of the points.
      letters: how many times as large letters are as in a figure of a paper.

    Returns:
      What is drawn of every point, its mark last.
    """
    spent = [point.cost for point in picture.finite]
    _scale(picture.axis, axes, most=spent, least=spent)
    steps = {"drawstyle": "steps-post", "color": GREY, "lw": 0.8, "zorder": 1.5}
    axes.plot(*zip(*picture.front, strict=True), label="front", **steps)
    drawn = []
    for point in picture.finite:
        look = looks[point.number]
        artists: list[Artist] = []
        if point.low is not None and point.high is not None and point.high > point.low:
            interval = {"color": look.colour, "lw": 0.8, "zorder": 2}
            artists += axes.plot([point.cost] * 2, [point.low, point.high], **interval)
        above = 3 if look.filled else 2
        size = {"ms": 4 * letters**0.5, "mew": 0.5 * letters}
        mark = {**look.mark, **size, "ls": "", "zorder": above}
        artists += axes.plot([point.cost], [point.mean], label=literal(point.name), **mark)
        drawn.append((point, artists))

    names = []
    ends = []
    for point in picture.finite:
        names.append(point.name)
        ends.append((point, point.cost, point.mean))
    cut_up([axes], picture.score_ends(), names)
    _numbers(axes, looks, ends, letters)
    axes.set_xlabel(f"{picture.label}, log" if picture.log else picture.label)
    return drawn


def _scale(axis: CostAxis, axes: "Axes", most: Sequence[float], least: Sequence[float]) -> None:
    """Set the lower axis: logarithmic where some spend much more than others.

    Args:
      axis: what is counted.
      axes: to set.
      most: what each method spent in the end.
      least: what it had spent first.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    if logarithmic(most):
        axes.set_xscale("log")
        low = min(value for value in least if value > 0)
        high = max(most)
        margin = (high / low) ** 0.05
        axes.set_xlim(low / margin, high * margin)
        ticks = (1.0,) if high > 100 * low else (1.0, 2.0, 5.0)
        axes.xaxis.set_major_locator(LogLocator(subs=ticks, numticks=7))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(0, 1.06 * max([*most, 1e-9]))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axis.tick(value)))


def _numbers(
    axes: "Axes", looks: Looks, ends: Sequence[tuple[Point, float, float]], letters: float = 1.0
) -> None:
    """Write the number of every point beside it, where there is no other number.

    Args:
      axes: whose scales are set.
      looks: of the points.
      ends: points, and x and y of each; those that coincide share a text.
      letters: how many times as large letters are as in a figure of a paper.
    """
    ends = within(axes, ends)
    at_same: dict[tuple[float, float], list[Point]] = {}
    for point, x, y in ends:
        at_same.setdefault((x, y), []).append(point)

    taken: list[tuple[float, float, int]] = []  # where a text begins, and its letters
    for position, points in sorted(at_same.items()):
        numbers = [str(point.number) for point in points]
        text = ", ".join(numbers)
        x, y = axes.transData.transform(position) * 72 / axes.figure.dpi / letters  # in points
        up = _free(x, y, len(text), taken)
        taken.append((x, y + up, len(text)))
        look = looks[points[0].number]
        axes.annotate(
            text,
            position,
            xytext=(NUMBER_RIGHT * letters, up * letters),
            textcoords="offset points",
            annotation_clip=False,
            fontsize=SMALL - 1.5,
            color=look.colour if look.strong else GREY,
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


def _legend(figure: "Figure", points: Sequence[Point], looks: Looks, side_by_side: int) -> None:
    """Draw numbers and names at the foot, column by column."""
    from matplotlib.lines import Line2D

    handles = []
    for point in points:
        look = looks[point.number]
        handles.append(Line2D([], [], lw=1.2, ms=3.5, linestyle=look.dash, **look.mark))
    keys = figure.legend(
        handles,
        ["-"] * len(points),
        loc="lower left",
        bbox_to_anchor=(0.02, 0.0),
        ncols=side_by_side,
        labelspacing=0.2,
        borderaxespad=0.2,
        columnspacing=1.2,
        handlelength=2.6,
    )
    # given to `legend`, a name that begins with _ would be left out
    for key, point in zip(keys.get_texts(), points, strict=True):
        key.set_text(f"{point.number} {literal(point.name, LETTERS)}")
