"""A panel of curves: what one pair of axes shows, in a figure of a paper or on the page."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedsim.report.figures import drawing, marks
from fedsim.report.figures.lines import band
from fedsim.report.pictures.curves import Curve
from fedsim.report.pictures.cut import without_outlier
from fedsim.study.summary import is_share

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

FEW = 15  # points of a curve up to which each has a mark, for a single method
LOGARITHMIC = 100.0  # losses are on a logarithmic scale above that ratio of largest to smallest
TRAIN = 4  # the rank whose colour the train loss has where it shares a panel with the test loss


class Panel(NamedTuple):
    """What one pair of axes shows.

    Attributes:
      columns: of `rounds.csv`, which share the axes.
      variant: the variation; empty where nothing varies.
    """

    columns: tuple[str, ...]
    label: str
    curves: list[Curve]
    variant: str = ""


def fill(
    axes: "Axes", panel: Panel, several: bool, log: bool, marked: bool = True
) -> list[list["Artist"]]:
    """Draw the curves of a panel, and set its scales -> what each curve consists of.

    Args:
      log: whether losses are on a logarithmic scale because those of other panels are.
    """
    shared = len(panel.columns) > 1
    artists = []
    for curve in panel.curves:
        look = marks.line_of(curve.rank)
        if shared and curve.column == "train_loss":
            look["color"] = marks.line_of(TRAIN)["color"]
        artists.append(_curve(axes, curve, look, several, marked))
    axes.set_ylabel(panel.label)
    _scales(axes, log=not any(map(is_share, panel.columns)) and (log or wide([panel])))
    if shared:
        drawn = {line.get_label(): line for line in axes.lines}
        lines = []
        names = []
        for column in panel.columns:
            lines.append(drawn[column])
            names.append(column.removesuffix("_loss"))
        axes.legend(lines, names, loc="best")
    return artists


def _scales(axes: "Axes", log: bool) -> None:
    """Set the ticks of both axes, and whether the upright one is logarithmic."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    most = 6 if axes.get_position().width > 0.5 else 3
    rounds = MaxNLocator(most, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])
    axes.xaxis.set_major_locator(rounds)
    if not log:
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        return
    axes.set_yscale("log")
    axes.set_ylabel(f"{axes.get_ylabel()}, log")
    axes.yaxis.set_major_locator(LogLocator(numticks=6))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_power))


def _curve(
    axes: "Axes", curve: Curve, look: dict[str, Any], several: bool, marked: bool
) -> list["Artist"]:
    """Draw a curve: its mean, the seeds or their range, and crosses where seeds diverged."""
    strong = not several or curve.rank < marks.STRONG
    artists: list[Artist] = []
    if curve.several and curve.each:
        thin = {**look, "lw": 0.6 if strong else 0.4, "alpha": 0.6}
        for seed in curve.series.seeds:
            label = f"{curve.column}, seed {seed}"
            artists += axes.plot(*curve.series.of(seed), label=label, **thin)
    elif curve.several and strong:
        alpha = 0.13 if several else 0.2
        label = f"{curve.column}, range"
        area = band(axes, curve.rounds, curve.low, curve.high, look["color"], alpha, label)
        artists.append(area)

    marker = {}
    if several and marked:
        marker = marks.markers_of(curve.rank, len(curve.rounds))
    elif not several and len(curve.series.rounds) <= FEW:
        marker = {"marker": "o", "markersize": 2.0}
    artists += axes.plot(curve.rounds, curve.mean, label=curve.column, **look, **marker)

    cross = {"color": look["color"], "ls": "", "marker": "x", "ms": 4.5, "mew": 1.2}
    for seed in curve.lost:
        if seed in curve.series.seeds:
            x, y = curve.series.of(seed)
            artists += axes.plot(x[-1:], y[-1:], label=f"{curve.column}, diverged", **cross)
    return artists


def by_method(panels: Sequence[Panel]) -> tuple[list[list[float]], list[str]]:
    """All finite numbers of every method in panels that share their scale, and the names."""
    numbers: dict[str, list[float]] = {}
    for panel in panels:
        for curve in panel.curves:
            values = curve.series.values
            numbers.setdefault(curve.name, []).extend(values[np.isfinite(values)].tolist())
    return [*numbers.values()], [*numbers]


def _power(value: float, _: Any) -> str:
    """A tick of a logarithmic axis."""
    if 0.01 <= value < 1e4:
        return f"{value:g}"
    return f"1e{round(np.log10(value))}"


def wide(panels: Sequence[Panel]) -> bool:
    """Whether the losses of some panels need a logarithmic scale."""
    rows, _ = by_method(panels)
    losses = np.array(without_outlier(rows), float)
    positive = losses[losses > 0]
    if not len(positive) or (losses < 0).any():
        return False
    return bool(positive.max() > LOGARITHMIC * positive.min())


def draw_target(axes: "Axes", panel: Panel, scenario: Mapping[str, Any], accurate: bool) -> None:
    """Draw a dashed line at the target of the metric.

    Args:
      accurate: whether there is any accuracy; without it the target is of the test loss.
    """
    evaluate = scenario.get("evaluate", {})
    target = evaluate.get("target")
    metric = evaluate.get("metric", "test_accuracy")
    if metric == "test_accuracy" and not accurate:
        metric = "test_loss"
    if target is None or metric not in panel.columns:
        return
    drawing.level_line(axes, target, label="target")
    if axes.get_position().width >= 0.5:  # in narrower panels the small print names it
        side = "bottom" if _space_above(axes, target, panel.curves) else "top"
        drawing.line_text(axes, 0.99, target, f"target {target:g}", ha="right", va=side)


def _space_above(axes: "Axes", target: float, curves: Sequence[Curve]) -> bool:
    """Whether there is more space above a line than below it, at the right end of the axes."""
    axes.autoscale_view()  # the scales that the axes will have
    in_shares = axes.transData + axes.transAxes.inverted()
    height = in_shares.transform((0, target))[1]
    above = 1 - height
    below = height
    for curve in curves:
        if not len(curve.rounds):
            continue
        x, y = in_shares.transform((curve.rounds[-1], curve.mean[-1]))
        if x >= 0.8 and y >= height:
            above = min(above, y - height)
        elif x >= 0.8:
            below = min(below, height - y)
    return above >= below


def share_limits(all_axes: Sequence["Axes"]) -> None:
    """Give all upright axes the same limits."""
    limits = [axes.get_ylim() for axes in all_axes]
    low = min(low for low, _ in limits)
    high = max(high for _, high in limits)
    for axes in all_axes:
        axes.set_ylim(low, high)


def pale_ends(panel: Panel) -> list[tuple[int, float, float]]:
    """Rank and last point of every pale curve of a panel."""
    ends = []
    for curve in panel.curves:
        is_pale = curve.rank >= marks.STRONG
        if is_pale and curve.column == panel.columns[0] and len(curve.rounds):
            ends.append((curve.rank, float(curve.rounds[-1]), float(curve.mean[-1])))
    return ends
