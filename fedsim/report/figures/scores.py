"""The scores of methods against the one numeric axis that varies, from the rows of
`compare.csv`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsim.report.about import About, beside_axis
from fedsim.report.figures.drawing import FOOT, GREY, RIGHT, SMALL, literal, sheet, style
from fedsim.report.figures.marks import STRONG, legend, legend_inches, line_of, markers_of, numbered
from fedsim.report.results import Row, by
from fedsim.report.series import FARTHEST
from fedsim.study.breakdown import LEAST, beside
from fedsim.study.statistics import half_width_of
from fedsim.study.summary import in_words, is_share, worst

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GEOMETRIC = (
    20.0  # the largest value of an axis over the smallest, from which on its scale is logarithmic
)
TALL = 1.9  # inches


def axis_of(scenario: Mapping[str, Any]) -> str | None:
    """The path that varies, where it is the only one and its values are two or more numbers; beside
    others, where it is the only one with three or more numbers.
    """
    vary = (scenario.get("compare") or {}).get("vary") or {}
    several = {path: values for path, values in vary.items() if len(values) > 1}
    numeric = [path for path, values in several.items() if all(map(_is_number, values))]
    long = [path for path in numeric if len(several) == 1 or len(several[path]) >= LEAST]
    return long[0] if len(long) == 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def figures_of_scores(
    rows: Sequence[Row], about: About, fallen: Sequence[Row] = (), start: float | None = None
) -> list["Figure"]:
    """`figure_of_scores` for every variation of what varies beside the axis.

    Args:
      rows: of `compare.csv`, with the column of the axis.
      about: what is shown; its scenario has the axis (`axis_of`).
      fallen: rows of `breakdown.csv`, along the same axis.
      start: the score of the untrained model.
    """
    path = str(axis_of(about.scenario))
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(beside(row["variant"], path), []).append(row)
    breaks: dict[str, dict[str, float]] = {}
    for row in fallen:
        if row["falls"] is not None:
            breaks.setdefault(row.get("variant") or "", {})[row["method"]] = row["falls"]
    return [
        figure_of_scores(part, about, breaks.get(rest, {}), start, rest)
        for rest, part in parts.items()
    ]


def figure_of_scores(
    rows: Sequence[Row],
    about: About,
    breaks: Mapping[str, float] | None = None,
    start: float | None = None,
    rest: str = "",
) -> "Figure":
    """Mean scores against the axis, a curve per method, with Student's 95 % interval over the seeds
    as a band.

    A run that diverged counts as the worst there is, as in `compare.csv`. A cross is a method's
    break-down point (`fedsim.study.breakdown`): from there on less than half of what training gains
    at the better end of the axis is left.

    Args:
      rows: of `compare.csv`, with the column of the axis.
      about: what is shown; its scenario has the axis (`axis_of`).
      breaks: break-down points by method.
      start: the score of the untrained model.
      rest: what varies beside the axis, as in the column `variant`.
    """
    path = str(axis_of(about.scenario))
    rows = sorted(rows, key=lambda row: row[path])
    by_name = {name: group for (name,), group in by(rows, "method").items()}
    names = about.ordered([*by_name])
    crosses = [(breaks or {}).get(name) for name in names]
    metric = next((str(row["metric"]) for row in rows if row["metric"]), "")
    seeds = max(row["seeds"] for row in rows)
    note = f"{rows[0]['score']} {in_words(metric)}, mean and 95 % interval over {seeds} seeds"
    note += f"; {about.words(rest)}" if rest else ""
    if any(cross is not None for cross in crosses):
        note += (
            "; cross: broken down, less than half of what training gained is left there and beyond"
        )
    if any(row["diverged"] for row in rows) and is_share(metric):
        note += f"; a run that diverged counts as {worst(metric):.0f}"
    with style():
        right = RIGHT + (0.1 if len(names) > STRONG else 0.0)
        figure, (axes,) = sheet(about.title, note, [TALL], FOOT + legend_inches(names), right=right)
        _scale(axes, sorted({row[path] for row in rows}), path)
        ends = []
        for place, (name, cross) in enumerate(zip(names, crosses, strict=True)):
            ends += _curve(axes, by_name[name], path, place, cross)
        axes.set_ylabel(beside_axis(metric))
        if is_share(metric):
            low, high = axes.get_ylim()
            axes.set_ylim(max(low, -0.02), min(high, 1.02))
        if start is not None:
            axes.axhline(start, lw=0.8, ls=(0, (4, 3)), color=GREY, zorder=1, label="untrained")
            edge = axes.get_yaxis_transform()
            axes.text(
                0.01,
                start,
                "untrained",
                transform=edge,
                va="bottom",
                fontsize=SMALL - 0.5,
                color=GREY,
            )
        numbered(axes, ends)
        if len(names) > 1:
            legend(figure, names)
        return figure


def _scale(axes: "Axes", values: Sequence[float], path: str) -> None:
    """The axis, logarithmic where its values grow by factors, with a tick at every value as far as
    there is room.
    """
    from matplotlib.ticker import NullLocator

    low, high = values[0], values[-1]
    axes.set_xlabel(literal(path, 50))
    if low > 0 and high > GEOMETRIC * low:
        axes.set_xscale("log")
        axes.set_xlabel(f"{literal(path, 50)}, log")
        margin = (high / low) ** 0.02
        axes.set_xlim(low / margin, high * margin)
    else:
        margin = (
            0.02 * (high - low) or 0.5
        )  # of a comparison that has just begun there may be a single value
        axes.set_xlim(low - margin, high + margin)
    step = -(-len(values) // 8)
    axes.set_xticks(values[::step], [f"{value:g}" for value in values[::step]])
    axes.xaxis.set_minor_locator(NullLocator())


def _curve(
    axes: "Axes", rows: Sequence[Row], path: str, place: int, broken: float | None
) -> list[tuple[int, float, float]]:
    """One method: its means, their interval, and its break-down point -> the end of a pale one, for
    its number.
    """
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
        axes.plot(
            [broken],
            mean[x == broken],
            "x",
            color=look["color"],
            zorder=4,
            label="broken down",
            **size,
        )
    return [(place, float(x[-1]), float(mean[-1]))] if place >= STRONG and len(x) else []
