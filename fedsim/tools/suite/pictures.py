"""The pictures on the page of a suite."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from fedsim.disk.tables import Record
from fedsim.report.page.pictures import brief
from fedsim.report.page.plot import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, path
from fedsim.report.page.scales import axis
from fedsim.report.page.strips import (
    Line,
    Mark,
    Strips,
    cut_axis,
    empty_mark,
    marks_picture,
    numbers_of,
    percent_axis,
    symbol,
)
from fedsim.report.page.svg import axes_grid, element
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.summary import grouped, in_words, is_share
from fedsim.tools.suite.analysis import Analysis


def differences(
    analysis: Analysis, rows: Sequence[Record], looks: Mapping[str, str]
) -> list[tuple[str, Strips]]:
    """The differences to the baseline in every task, with intervals.

    Args:
      analysis: of the suite.
      rows: of `scores.csv`.
      looks: the classes of methods' colours.
    """
    shown = []
    for task, of_task in grouped(rows, key=lambda row: row["task"]).items():
        lines = []
        for row in of_task:
            if row["method"] != row["baseline"]:
                lines.append(Line(row["method"], row["note"], looks[row["method"]], [_apart(row)]))
        if not any(numbers_of(line.marks) for line in lines):
            continue
        x = cut_axis([numbers_of(line.marks) for line in lines], [0.0])
        metric = in_words(of_task[0]["metric"])
        label = f"difference of {metric} to {analysis.baseline}"
        keys = [
            (symbol(0), "p < 0.05 after Holm"),
            (symbol(0, filled=False), "not told apart, or not tested"),
        ]
        shown.append((task, marks_picture(lines, x, label, [(0.0, "zero")], keys)))
    return shown


def overall(
    analysis: Analysis, rows: Sequence[Record], looks: Mapping[str, str]
) -> list[tuple[str, Strips]]:
    """Mean ranks and interquartile means over the tasks, with bootstrap intervals.

    Args:
      analysis: of the suite.
      rows: of `overall.csv`.
      looks: the classes of methods' colours.
    """
    share = is_share(analysis.metric)
    pictures = [
        _intervals(rows, ("mean_rank", "rank_low", "rank_high"), "mean rank, 1 is the best", looks),
        _intervals(
            rows, ("iqm", "iqm_low", "iqm_high"), in_words(analysis.metric), looks, share=share
        ),
    ]
    titles = ("Mean rank", "Interquartile mean")
    return [(t, picture) for t, picture in zip(titles, pictures, strict=True) if picture.rows]


def profiles(analysis: Analysis, rows: Sequence[Record], looks: Mapping[str, str]) -> Markup | None:
    """The share of runs above every threshold; None if there are none.

    Args:
      analysis: of the suite.
      rows: of `profiles.csv`.
      looks: the classes of methods' curves.
    """
    if not rows:
        return None
    points = _points(rows, "threshold", "share")
    side = "above" if analysis.larger_is_better else "below"
    return _curves(points, looks, in_words(analysis.metric), f"share of runs {side} it", share=True)


def budget(rows: Sequence[Record], looks: Mapping[str, str]) -> list[tuple[str, Markup]]:
    """The expected best validation score of k settings, in every task.

    Args:
      rows: of `budget.csv`.
      looks: the classes of methods' curves.
    """
    pictures = []
    for task, of_task in grouped(rows, key=lambda row: row["task"]).items():
        metric = of_task[0]["metric"]
        points = _points(of_task, "trials", "expected")
        label = f"expected best {in_words(metric)}"
        drawn = _curves(points, looks, "settings tried", label, share=is_share(metric), whole=True)
        pictures.append((task, drawn))
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
    rows: Sequence[Record],
    names: tuple[str, str, str],
    label: str,
    looks: Mapping[str, str],
    share: bool = False,
) -> Strips:
    """A number of every method with its interval; methods without one are left out.

    Args:
      rows: of `overall.csv`.
      names: the columns of the number and the ends of its interval.
      label: of the axis.
      looks: the classes of methods' colours.
      share: whether the numbers are shares.
    """
    lines = []
    for row in rows:
        at, low, high = [row[name] for name in names]
        if at is not None:
            ends = "" if low is None else f" ({low:.4g} to {high:.4g})"
            mark = Mark(at, low, high, [], True, f"{at:.3g}", f"{at:.4g}{ends}")
            lines.append(Line(row["method"], row["note"], looks[row["method"]], [mark]))
    numbers = []
    for line in lines:
        numbers += numbers_of(line.marks)
    return marks_picture(lines, percent_axis(numbers, share), label)


def _points(rows: Sequence[Record], x: str, y: str) -> dict[str, list[tuple[float, float]]]:
    """The points of every method's curve, from two columns; infinite ones are not drawn."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if math.isfinite(row[y]):
            points.setdefault(row["method"], []).append((row[x], row[y]))
    return points


def _curves(
    points: Mapping[str, Sequence[tuple[float, float]]],
    looks: Mapping[str, str],
    below: str,
    label: str,
    share: bool,
    whole: bool = False,
) -> Markup:
    """A curve per method; the first is drawn last, above the others.

    Args:
      points: of every method's curve.
      looks: the classes of curves.
      below: the name of the lower axis.
      label: what the height is.
      share: whether heights are shares.
      whole: whether the lower axis counts something.
    """
    across = []
    heights = []
    for of_method in points.values():
        across += [x for x, _ in of_method]
        heights += [y for _, y in of_method]
    x = axis(across, LEFT, WIDTH - RIGHT, exact=True)
    y = axis(heights, HEIGHT - BOTTOM, TOP, share)
    ticks = None
    if whole:
        ticks = [tick for tick in x.ticks() if tick == round(tick)]
    elements = [axes_grid(x, y, below, ticks)]
    for method in reversed([*points]):
        title = element("title", method)
        line = element("path", class_="line", d=path(points[method], x, y))
        elements.append(element("g", title, line, class_=f"series {looks[method]}"))
    return element("svg", *elements, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)
