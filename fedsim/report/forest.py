"""Paired differences to the baseline as a forest plot, from the rows of `compare.csv`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedsim.report.drawing import COLOURS, GREY, SMALL, literal, look, page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE = 0.17  # inches of a row
SURE = 0.05


def figure_of_differences(table: pd.DataFrame, scenario: Mapping[str, Any]) -> "Figure":
    """A line per method and variation: mean difference to the baseline with its 95 % interval.

    Filled marks are differences that the exact test, adjusted after Holm, calls sure; rows without a number have no mark.

    Args:
      table: the columns of `compare.csv`.
      scenario: resolved, for the name.
    """
    from matplotlib.ticker import MaxNLocator

    rows = table.to_dict("records")
    metric = str(rows[0]["metric"]).replace("_", " ") if rows else ""
    better = "left is better" if metric.endswith("loss") else "right is better"
    baseline = literal(rows[0]["baseline"]) if rows else ""
    note = (
        f"paired difference to {baseline} in {metric}, mean and 95 % interval over seeds; filled: p < {SURE} after Holm"
    )
    names = [_name(row) for row in rows]
    left = min(0.3 + 0.052 * max(map(len, names), default=0), 1.9)
    with look():
        made = page(str(scenario.get("name", "")), note, [max(LINE * len(rows), 2 * LINE)], foot=0.42, left=left)
        axes = made.axes[0]
        axes.axvline(0, lw=0.8, color=GREY, zorder=1)
        for place, row in enumerate(rows):
            _mark(axes, place, row)
        axes.set_yticks(range(len(rows)), names)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.set_xlabel(f"difference ({better})", fontsize=SMALL)
        return made.figure


def _name(row: Mapping[str, Any]) -> str:
    variant = row.get("variant")
    return literal(f"{row['method']}, {variant}" if isinstance(variant, str) and variant else row["method"], 34)


def _mark(axes: Any, place: int, row: Mapping[str, Any]) -> None:
    if pd.isna(row["difference"]):
        return
    sure = not pd.isna(row["p_adjusted"]) and row["p_adjusted"] < SURE
    colour = COLOURS[0]
    if not pd.isna(row["ci_low"]):
        axes.plot([row["ci_low"], row["ci_high"]], [place, place], lw=1.1, color=colour, label="interval")
    face = colour if sure else "white"
    axes.plot([row["difference"]], [place], "o", ms=3.6, mec=colour, mfc=face, mew=1.0, label="difference")
