"""The pictures on the page of a suite."""

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from fedsim.disk.tables import Record
from fedsim.report.figures.lines import Lower
from fedsim.report.figures.on_page import lines_on_page
from fedsim.report.figures.rows import Shown, rows_on_page
from fedsim.report.pictures.curves import Line
from fedsim.report.pictures.rows import (
    SHAPES,
    ZERO,
    Key,
    Mark,
    Row,
    Rows,
    brief,
    empty_mark,
    span_of,
)
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.summary import grouped, in_words, is_share
from fedsim.tools.suite.analysis import Analysis


def differences(analysis: Analysis, rows: Sequence[Record]) -> list[tuple[str, Shown]]:
    """The differences to the baseline in every task, with intervals."""
    keys = [
        Key("p < 0.05 after Holm", SHAPES[0]),
        Key("not told apart, or not tested", SHAPES[0], filled=False),
    ]
    shown = []
    for task, of_task in grouped(rows, key=lambda row: row["task"]).items():
        lines = []
        for row in of_task:
            if row["method"] != row["baseline"]:
                rank = analysis.methods.index(row["method"])
                lines.append(Row(row["method"], row["note"], rank, [_apart(row)]))
        if not any(line.numbers for line in lines):
            continue
        span = span_of(lines, fixed=[0.0])
        label = f"difference of {in_words(of_task[0]['metric'])} to {analysis.baseline}"
        shown.append((task, rows_on_page(Rows(lines, span, label, [ZERO], keys))))
    return shown


def overall(analysis: Analysis, rows: Sequence[Record]) -> list[tuple[str, Shown]]:
    """Mean ranks and interquartile means over the tasks, with bootstrap intervals."""
    share = is_share(analysis.metric)
    ranks = ("mean_rank", "rank_low", "rank_high")
    means = ("iqm", "iqm_low", "iqm_high")
    pictures = {
        "Mean rank": _intervals(analysis, rows, ranks, "mean rank, 1 is the best"),
        "Interquartile mean": _intervals(analysis, rows, means, analysis.metric_in_words, share),
    }
    return [(title, rows_on_page(picture)) for title, picture in pictures.items() if picture.rows]


def profiles(analysis: Analysis, rows: Sequence[Record]) -> Markup | None:
    """The share of runs above every threshold; None if there are none."""
    if not rows:
        return None
    side = "above" if analysis.larger_is_better else "below"
    lines = _lines(analysis, rows, "threshold", "share")
    lower = Lower("threshold", analysis.metric_in_words)
    return lines_on_page(lines, lower, f"share of runs {side} it", share=True)


def budget(analysis: Analysis, rows: Sequence[Record]) -> list[Markup]:
    """The expected best validation score of k settings, in every task."""
    lower = Lower("trials", "settings tried", whole=True)
    pictures = []
    tasks = grouped(rows, key=lambda row: row["task"])
    abreast = min(len(tasks), 2)
    for task, of_task in tasks.items():
        metric = of_task[0]["metric"]
        lines = _lines(analysis, of_task, "trials", "expected")
        label = f"expected best {in_words(metric)}"
        share = is_share(metric)
        pictures.append(lines_on_page(lines, lower, label, task, share=share, abreast=abreast))
    return pictures


def _apart(row: Record) -> Mark:
    """The difference of a method to the baseline; filled if the test tells them apart."""
    if row["difference"] is None:
        return empty_mark(row["note"] or "no difference")
    p = row["p_adjusted"]
    text = brief(row["difference"], sign="+")
    title = text
    if row["ci_low"] is not None:
        title += f" ({row['ci_low']:+z.4f} to {row['ci_high']:+z.4f})"
    if p is not None:
        title += f", p = {p:.2g} after Holm"
    return Mark(
        at=row["difference"],
        low=row["ci_low"],
        high=row["ci_high"],
        dots=[],
        filled=p is not None and p < SIGNIFICANCE_LEVEL,
        text=text,
        title=title,
    )


def _intervals(
    analysis: Analysis,
    rows: Sequence[Record],
    names: tuple[str, str, str],
    label: str,
    share: bool = False,
) -> Rows:
    """A number of every method with its interval; methods without one are left out."""
    lines = []
    for row in rows:
        at, low, high = [row[name] for name in names]
        if at is not None:
            ends = "" if low is None else f" ({low:.4g} to {high:.4g})"
            mark = Mark(at, low, high, [], True, f"{at:.3g}", f"{at:.4g}{ends}")
            rank = analysis.methods.index(row["method"])
            lines.append(Row(row["method"], row["note"], rank, [mark]))
    return Rows(lines, span_of(lines, share=share, cut=False), label)


def _lines(analysis: Analysis, rows: Sequence[Record], x: str, y: str) -> list[Line]:
    """A line per method, from two columns; infinite numbers are not drawn."""
    lines = []
    for method, of_method in grouped(rows, key=lambda row: row["method"]).items():
        points = [(row[x], row[y]) for row in of_method if math.isfinite(row[y])]
        if points:
            positions, heights = np.array(points, float).T
            rank = list(analysis.methods).index(method)
            lines.append(Line(str(method), rank, positions, heights))
    return lines
