"""Paired differences to the baseline as a forest plot, from the rows of `compare.csv`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedsim.report.figures.drawing import COLOURS, GREY, HIGH, SMALL, literal, sheet, style
from fedsim.report.series import by_variant
from fedsim.study.pairing import SURE, others
from fedsim.study.summary import in_words, larger_is_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE = 0.17  # inches of a row
BETWEEN = 0.42  # inches between two panels
FRAME = 1.1  # inches of title, small print and axis, about


def pages_of_differences(table: pd.DataFrame, scenario: Mapping[str, Any], order: Sequence[str] = ()) -> list["Figure"]:
    """`figure_of_differences`; of more variations than fit a page several."""
    parts = list(by_variant(table).values())
    rows = max((len(part) - 1 for part in parts), default=1)
    most = max(int((HIGH - FRAME) // (LINE * max(rows, 2) + BETWEEN)), 1)
    pages = [pd.concat(parts[i : i + most]) for i in range(0, len(parts), most)]
    return [figure_of_differences(page, scenario, order) for page in pages]


def figure_of_differences(table: pd.DataFrame, scenario: Mapping[str, Any], order: Sequence[str] = ()) -> "Figure":
    """A forest plot, a line per method: mean difference to the baseline with its 95 % interval; a panel
    per variation.

    Filled marks are differences that the exact test, adjusted after Holm, calls sure; rows without a number have no mark.

    Args:
      table: the columns of `compare.csv`.
      scenario: resolved, for the name.
      order: of the methods; left out: as they appear.
    """
    place = {name: i for i, name in enumerate(order)}
    sort = lambda rows: sorted(rows, key=lambda row: place.get(row["method"], len(place)))
    parts = {variant: sort(others(part.to_dict("records"))) for variant, part in by_variant(table).items()}
    parts = {variant: rows for variant, rows in parts.items() if rows}  # before its end one may have the baseline alone
    rows = [row for part in parts.values() for row in part]
    baseline = next((row["baseline"] for row in rows), "")
    metric = next((str(row["metric"]) for row in rows if row["metric"]), "")
    note = f"paired difference to {literal(baseline)} in {in_words(metric)}, mean and 95 % interval over seeds"
    left = min(0.3 + 0.052 * max((len(literal(row["method"], 34)) for row in rows), default=0), 1.9)
    heights = [LINE * max(len(rows), 2) for rows in parts.values()]
    with style():
        note = f"{note}; filled: p < {SURE} after Holm"
        figure, panels = sheet(str(scenario.get("name", "")), note, heights, foot=0.42, left=left, gap=BETWEEN)
        for axes, (variant, rows) in zip(panels, parts.items(), strict=True):
            _forest(axes, rows)
            axes.set_title(literal(variant, 60), loc="left", fontsize=SMALL, pad=2)
        better = "right is better" if larger_is_better(metric) else "left is better"
        panels[-1].set_xlabel(f"difference ({better})", fontsize=SMALL)
        return figure


def _forest(axes: "Axes", rows: Sequence[Mapping[str, Any]]) -> None:
    """A forest plot: a line per method."""
    from matplotlib.ticker import MaxNLocator

    axes.axvline(0, lw=0.8, color=GREY, zorder=1)
    for place, row in enumerate(rows):
        if not pd.isna(row["difference"]):
            _mark(axes, place, row)
    axes.set_yticks(range(len(rows)), [literal(row["method"], 34) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def _mark(axes: Any, place: int, row: Mapping[str, Any]) -> None:
    """A mean difference with its interval."""
    sure = not pd.isna(row["p_adjusted"]) and row["p_adjusted"] < SURE
    colour = COLOURS[0]
    if not pd.isna(row["ci_low"]):
        axes.plot([row["ci_low"], row["ci_high"]], [place, place], lw=1.1, color=colour, label="interval")
    face = colour if sure else "white"
    axes.plot([row["difference"]], [place], "o", ms=3.6, mec=colour, mfc=face, mew=1.0, label="difference")
