"""The scores of methods against the one numeric axis that varies, from the rows of `compare.csv`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedsim.report.figures.drawing import FOOT, GREY, RIGHT, SMALL, literal, sheet, style
from fedsim.report.figures.marks import STRONG, legend, legend_inches, line_of, markers_of, numbered
from fedsim.report.series import FARTHEST
from fedsim.study.breakdown import breakdown
from fedsim.study.statistics import half_width_of
from fedsim.study.summary import larger_is_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GEOMETRIC = 20.0  # the largest value of an axis over the smallest, from which on its scale is logarithmic
TALL = 1.9  # inches


def axis_of(scenario: Mapping[str, Any]) -> str | None:
    """The path that varies, where it is the only one and its values are two or more numbers."""
    vary = (scenario.get("compare") or {}).get("vary") or {}
    several = {path: values for path, values in vary.items() if len(values) > 1}
    if len(several) != 1:
        return None
    ((path, values),) = several.items()
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return path if numeric else None


def figure_of_scores(
    table: pd.DataFrame, scenario: Mapping[str, Any], start: float | None = None, order: Sequence[str] = ()
) -> "Figure":
    """Mean scores against the axis, a curve per method, with Student's 95 % interval over the seeds as a band.

    A run that diverged counts as the worst there is, as in `compare.csv`. A cross is a method's break-down point
    (`fedsim.study.breakdown`): from there on less than half of what training gains at the better end of the axis is left.

    Args:
      table: the columns of `compare.csv`, with that of the axis.
      scenario: resolved, for its name and the axis (`axis_of`).
      start: the score of the untrained model, without which there are no break-down points.
      order: of the methods, the most important first.
    """
    path = str(axis_of(scenario))
    rows = table.assign(**{path: pd.to_numeric(table[path])}).sort_values(path, kind="stable")
    known = dict.fromkeys([*order, *rows["method"]])
    names = [name for name in known if name in set(rows["method"])]
    metric = next((str(m) for m in rows["metric"] if isinstance(m, str)), "")
    curves = [(place, rows[rows["method"] == name]) for place, name in enumerate(names)]
    breaks = {place: _break(curve, path, start, metric) for place, curve in curves}
    note = (
        f"{rows['score'].iloc[0]} {metric.replace('_', ' ')}, mean and 95 % interval over {rows['seeds'].max()} seeds"
    )
    if any(value is not None for value in breaks.values()):
        note += "; cross: broken down, less than half of what training gained is left there and beyond"
    with style():
        right = RIGHT + (0.1 if len(names) > STRONG else 0.0)
        figure, (axes,) = sheet(str(scenario.get("name", "")), note, [TALL], FOOT + legend_inches(names), right=right)
        _scale(axes, rows[path].unique(), path)
        ends = [end for place, curve in curves for end in _curve(axes, curve, path, place, breaks[place])]
        axes.set_ylabel(metric.replace("_", " ") + (" (share)" if metric.endswith("accuracy") else ""))
        if metric.endswith("accuracy"):
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


def _scale(axes: "Axes", values: np.ndarray, path: str) -> None:
    """The axis, logarithmic where its values grow by factors, with a tick at every value as far as there is room."""
    from matplotlib.ticker import NullLocator

    low, high = float(values.min()), float(values.max())
    axes.set_xlabel(literal(path, 50))
    if low > 0 and high > GEOMETRIC * low:
        axes.set_xscale("log")
        axes.set_xlabel(f"{literal(path, 50)}, log")
        margin = (high / low) ** 0.02
        axes.set_xlim(low / margin, high * margin)
    else:
        margin = 0.02 * (high - low)
        axes.set_xlim(low - margin, high + margin)
    step = -(-len(values) // 8)
    axes.set_xticks(values[::step], [f"{value:g}" for value in values[::step]])
    axes.xaxis.set_minor_locator(NullLocator())


def _curve(
    axes: "Axes", rows: pd.DataFrame, path: str, place: int, broken: float | None
) -> list[tuple[int, float, float]]:
    """One method: its means, their interval, and its break-down point -> the end of a pale one, for its number."""
    x, mean, sd, seeds = (np.asarray(rows[name], float) for name in (path, "mean", "sd", "seeds"))
    known = np.abs(mean) <= FARTHEST
    x, mean, sd, seeds = x[known], mean[known], sd[known], seeds[known]
    half = np.array([half_width_of(s, int(n)) if n > 1 and s == s else 0.0 for s, n in zip(sd, seeds, strict=True)])
    look = line_of(place)
    if place < STRONG and half.any():
        low, high = mean - half, mean + half
        if rows["metric"].astype(str).str.endswith("accuracy").all():
            low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
        axes.fill_between(x, low, high, color=look["color"], alpha=0.15, lw=0, label="interval")
    marker = {**markers_of(place, len(x)), "markevery": 1} if place < STRONG else {}
    axes.plot(x, mean, label=f"scores {place}", **look, **marker)
    if broken is not None and broken in x:
        cross = {
            "ls": "",
            "marker": "x",
            "ms": 7 if place < STRONG else 4,
            "mew": 1.5 if place < STRONG else 1,
            "zorder": 4,
            "label": "broken down",
        }
        axes.plot([broken], mean[x == broken], color=look["color"], **cross)
    return [(place, float(x[-1]), float(mean[-1]))] if place >= STRONG and len(x) else []


def _break(rows: pd.DataFrame, path: str, start: float | None, metric: str) -> float | None:
    if start is None:
        return None
    sds = [None if sd != sd else float(sd) for sd in np.asarray(rows["sd"], float)]
    numbers = (np.asarray(rows[name], float).tolist() for name in (path, "mean"))
    return breakdown(*numbers, sds, [int(n) for n in rows["seeds"]], start, larger_is_better(metric))
