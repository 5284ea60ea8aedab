"""The scores of methods against the one numeric axis that varies, from the rows of `compare.csv`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedsim.report.figures.drawing import FOOT, GREY, RIGHT, SMALL, literal, sheet, style
from fedsim.report.figures.marks import STRONG, legend, legend_inches, line_of, markers_of, numbered
from fedsim.report.results import Row, by, rows_of
from fedsim.report.series import FARTHEST
from fedsim.study.breakdown import LEAST, beside, breakdown
from fedsim.study.statistics import half_width_of
from fedsim.study.summary import in_words, is_share, larger_is_better, worst
from fedsim.study.words import variation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GEOMETRIC = 20.0  # the largest value of an axis over the smallest, from which on its scale is logarithmic
TALL = 1.9  # inches


def axis_of(scenario: Mapping[str, Any]) -> str | None:
    """The path that varies, where it is the only one and its values are two or more numbers; beside others, where it is the
    only one with three or more numbers.
    """
    vary = (scenario.get("compare") or {}).get("vary") or {}
    several = {path: values for path, values in vary.items() if len(values) > 1}
    numeric = [path for path, values in several.items() if all(map(_is_number, values))]
    long = [path for path in numeric if len(several) == 1 or len(several[path]) >= LEAST]
    return long[0] if len(long) == 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def figures_of_scores(
    table: pd.DataFrame, scenario: Mapping[str, Any], start: float | None = None, order: Sequence[str] = ()
) -> list["Figure"]:
    """`figure_of_scores` for every variation of what varies beside the axis."""
    path = str(axis_of(scenario))
    rest = [beside(variant, path) for variant in table["variant"]]
    parts = [(name, table[[name == other for other in rest]]) for name in dict.fromkeys(rest)]
    return [figure_of_scores(part, scenario, start, order, name) for name, part in parts]  # pyright: ignore


def figure_of_scores(
    table: pd.DataFrame,
    scenario: Mapping[str, Any],
    start: float | None = None,
    order: Sequence[str] = (),
    rest: str = "",
) -> "Figure":
    """Mean scores against the axis, a curve per method, with Student's 95 % interval over the seeds as a band.

    A run that diverged counts as the worst there is, as in `compare.csv`. A cross is a method's break-down point
    (`fedsim.study.breakdown`): from there on less than half of what training gains at the better end of the axis is left.

    Args:
      table: the columns of `compare.csv`, with that of the axis.
      scenario: resolved, for its name and the axis (`axis_of`).
      start: the score of the untrained model, without which there are no break-down points.
      order: of the methods, the most important first.
      rest: what varies beside the axis, as in the column `variant`.
    """
    path = str(axis_of(scenario))
    rows = sorted(rows_of(table), key=lambda row: row[path])
    by_name = {name: group for (name,), group in by(rows, "method").items()}
    names = [name for name in dict.fromkeys([*order, *by_name]) if name in by_name]
    metric = next((str(row["metric"]) for row in rows if row["metric"]), "")
    curves = [(place, by_name[name]) for place, name in enumerate(names)]
    breaks = {place: _break(curve, path, start, metric) for place, curve in curves}
    seeds = max(row["seeds"] for row in rows)
    note = f"{rows[0]['score']} {in_words(metric)}, mean and 95 % interval over {seeds} seeds"
    note += f"; {variation(rest, scenario)}" if rest else ""
    if any(value is not None for value in breaks.values()):
        note += "; cross: broken down, less than half of what training gained is left there and beyond"
    if any(row["diverged"] for row in rows) and is_share(metric):
        note += f"; a run that diverged counts as {worst(metric):.0f}"
    with style():
        right = RIGHT + (0.1 if len(names) > STRONG else 0.0)
        figure, (axes,) = sheet(str(scenario.get("name", "")), note, [TALL], FOOT + legend_inches(names), right=right)
        _scale(axes, sorted({row[path] for row in rows}), path)
        ends = [end for place, curve in curves for end in _curve(axes, curve, path, place, breaks[place])]
        axes.set_ylabel(in_words(metric) + (" (share)" if is_share(metric) else ""))
        if is_share(metric):
            low, high = axes.get_ylim()
            axes.set_ylim(max(low, -0.02), min(high, 1.02))
        if start is not None:
            axes.axhline(start, lw=0.8, ls=(0, (4, 3)), color=GREY, zorder=1, label="untrained")
            edge = axes.get_yaxis_transform()
            axes.text(0.01, start, "untrained", transform=edge, va="bottom", fontsize=SMALL - 0.5, color=GREY)
        numbered(axes, ends)
        if len(names) > 1:
            legend(figure, names)
        return figure


def _scale(axes: "Axes", values: Sequence[float], path: str) -> None:
    """The axis, logarithmic where its values grow by factors, with a tick at every value as far as there is room."""
    from matplotlib.ticker import NullLocator

    low, high = values[0], values[-1]
    axes.set_xlabel(literal(path, 50))
    if low > 0 and high > GEOMETRIC * low:
        axes.set_xscale("log")
        axes.set_xlabel(f"{literal(path, 50)}, log")
        margin = (high / low) ** 0.02
        axes.set_xlim(low / margin, high * margin)
    else:
        margin = 0.02 * (high - low) or 0.5  # of a comparison that has just begun there may be a single value
        axes.set_xlim(low - margin, high + margin)
    step = -(-len(values) // 8)
    axes.set_xticks(values[::step], [f"{value:g}" for value in values[::step]])
    axes.xaxis.set_minor_locator(NullLocator())


def _curve(
    axes: "Axes", rows: Sequence[Row], path: str, place: int, broken: float | None
) -> list[tuple[int, float, float]]:
    """One method: its means, their interval, and its break-down point -> the end of a pale one, for its number."""
    rows = [row for row in rows if row["mean"] is not None and abs(row["mean"]) <= FARTHEST]
    x, mean = (np.array([row[name] for row in rows], float) for name in (path, "mean"))
    half = np.array([half_width_of(row["sd"], row["seeds"]) if row["sd"] else 0.0 for row in rows])
    look = line_of(place)
    if place < STRONG and half.any():
        ends = mean - half, mean + half
        low, high = np.clip(ends, 0, 1) if is_share(str(rows[0]["metric"])) else ends
        axes.fill_between(x, low, high, color=look["color"], alpha=0.15, lw=0, label="interval")
    marker = {**markers_of(place, len(x)), "markevery": 1} if place < STRONG else {}
    axes.plot(x, mean, label="score", **look, **marker)
    if broken is not None and broken in x:
        size = {"ms": 7, "mew": 1.5} if place < STRONG else {"ms": 4, "mew": 1.0}
        axes.plot([broken], mean[x == broken], "x", color=look["color"], zorder=4, label="broken down", **size)
    return [(place, float(x[-1]), float(mean[-1]))] if place >= STRONG and len(x) else []


def _break(rows: Sequence[Row], path: str, start: float | None, metric: str) -> float | None:
    if start is None:
        return None
    values, means, sds, seeds = ([row[name] for row in rows] for name in (path, "mean", "sd", "seeds"))
    known = [np.nan if mean is None else mean for mean in means]
    return breakdown(values, known, sds, seeds, start, larger_is_better(metric))
