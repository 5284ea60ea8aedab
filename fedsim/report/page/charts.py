"""The curves of the page, from `rounds.csv`.

There is a group of charts per metric, and in it a chart per variation; the charts of a group share
one upright axis.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.report.context import Context
from fedsim.report.page import plot
from fedsim.report.page.folding import those_that_differ
from fedsim.report.page.opening import ROUNDS, SECONDS, TITLES
from fedsim.report.page.scales import Axis
from fedsim.report.pictures.curves import Curve, curves
from fedsim.report.series import by_variant, tracks
from fedsim.study.summary import in_words, is_share

METRICS = {
    "test_accuracy": "test accuracy",
    "test_loss": "test loss",
    "test_perplexity": "perplexity on test data",
    "test_r2": "R² on test data",
    "test_mae": "mean absolute error on test data",
    "train_loss": "train loss",
    "attack_success": "attack success",
    "update_norm": "norm of a client's update",
    "drift": "drift of clients around their mean",
    "cosine": "cosine between two clients' updates",
    "entropy_bytes": "bytes of a message behind an entropy code",
}
MANY_TIMES = 10.0  # an axis of bytes is logarithmic above that ratio of the methods' totals
DIGITS = 5  # significant digits of the numbers that the script draws

Positions = dict[str, list[float]]
"""where the points of a curve lie on every lower axis: rounds, bytes, seconds"""


class Panels(NamedTuple):
    """The charts of one metric.

    Attributes:
      metric: a column of `rounds.csv`.
      curves: by variation, none of which is empty.
      y: the axis that all charts share.
      target: the score to reach; None where the metric has none.
    """

    metric: str
    curves: dict[str, list[Curve]]
    y: Axis
    target: float | None


def column_in_words(metric: str) -> str:
    """A column of `rounds.csv` in words."""
    return METRICS.get(metric, in_words(metric))


def charts(
    rounds: pd.DataFrame | None,
    classes: Mapping[str, str],
    context: Context,
    opens: str = ROUNDS,
) -> tuple[list[dict[str, Any]], dict[str, list]]:
    """The groups of charts for the template, and the numbers for the script.

    Args:
      rounds: the columns of `rounds.csv`.
      classes: the classes of every method's curve, in the order of the result.
      context: what is shown; the group of its metric comes first.
      opens: the lower axis of the still pictures, with which the page opens.
    """
    groups: list[dict[str, Any]] = []
    data: dict[str, list] = {"axes": [], "charts": []}
    if rounds is None:
        return groups, data

    rounds = _with_entropy(rounds)
    tables = by_variant(rounds)
    directions = [name for name, _ in byte_axes(rounds)]
    for metric in filter(None, dict.fromkeys([context.metric, *METRICS])):
        panels = _panels(tables, metric, [*classes], context)
        if panels is None:
            continue

        first = len(data["charts"])
        number = len(groups)
        groups.append(_group(panels, number, first, classes, context, opens))
        data["charts"] += _numbers(panels, number, directions, data["axes"])
    return groups, data


def _panels(
    tables: Mapping[str, pd.DataFrame], metric: str, methods: Sequence[str], context: Context
) -> Panels | None:
    """The charts of a metric; None where no variation has a curve."""
    drawn = {}
    for variant, table in tables.items():
        columns = (metric, "test_loss", "bytes_up", "bytes_down", "virtual_seconds")
        variation_tracks = tracks(table, columns)
        nonempty = []
        for curve in curves(variation_tracks, [metric], methods):
            if len(curve.rounds):
                nonempty.append(curve)
        if nonempty:
            drawn[variant] = nonempty
    if not drawn:
        return None

    y = plot.height_axis(list(drawn.values()), is_share(metric))
    evaluate = context.scenario.get("evaluate", {})
    target = None
    if evaluate.get("metric") == metric:
        target = evaluate.get("target")
    return Panels(metric, drawn, y, target)


def _group(
    panels: Panels,
    number: int,
    first: int,
    classes: Mapping[str, str],
    context: Context,
    opens: str,
) -> dict[str, Any]:
    """The charts of a metric for the template.

    Args:
      panels: the charts.
      number: of the group.
      first: number of its first chart on the page.
      classes: the classes of every method's curve.
      context: what is shown.
      opens: the lower axis.
    """
    words = column_in_words(panels.metric)
    courses = {}
    for variant, of_variant in panels.curves.items():
        courses[variant] = [plot.Course(curve, _positions(curve, opens)) for curve in of_variant]
    across = plot.Across(TITLES[opens], _bytes_differ(courses, opens))

    drawn = []
    for chart, (variant, of_variant) in enumerate(courses.items(), first):
        label = context.words(variant)
        full = f"{words}, {label}" if label else words
        picture = plot.curves_picture(
            of_variant, classes, full, across, panels.y, chart, panels.target
        )
        drawn.append({"id": chart, "label": label, "picture": picture})

    ends = [_spread_at_the_end(of_variant) for of_variant in panels.curves.values()]
    title = f"{words}, logarithmic" if panels.y.log else words
    return {
        "number": number,
        "words": words,
        "title": title,
        "panels": those_that_differ(drawn, ends),
    }


def _spread_at_the_end(curves: Sequence[Curve]) -> float:
    """How far apart the last means of methods are."""
    ends = [float(curve.mean[-1]) for curve in curves]
    return max(ends) - min(ends)


def _positions(curve: Curve, axis: str) -> np.ndarray:
    """Where the points of a curve lie along a lower axis, `[r]`; `[0]` where that is unknown."""
    if axis == ROUNDS:
        return np.asarray(curve.rounds, float)
    if axis == SECONDS:
        return _costs_of(curve, "virtual_seconds")
    up = _costs_of(curve, "bytes_up")
    down = _costs_of(curve, "bytes_down")
    return {"up": up, "down": down, "bytes": up + down}[axis]


def _bytes_differ(courses: Mapping[str, Sequence[plot.Course]], axis: str) -> bool:
    """Whether some curves send many times the bytes of others; their axis is logarithmic then."""
    if axis in (ROUNDS, SECONDS):
        return False
    sent = []  # by each curve until its end
    for variation_courses in courses.values():
        for course in variation_courses:
            if len(course.x) and course.x[-1] > 0:
                sent.append(float(course.x[-1]))
    return bool(sent) and max(sent) > MANY_TIMES * min(sent)


def _numbers(
    panels: Panels, group: int, directions: Sequence[str], axes: list[Positions]
) -> list[dict[str, Any]]:
    """The charts of a metric for the script; the positions of its curves are added to `axes`."""
    charts = []
    for drawn in panels.curves.values():
        chart = {
            "group": group,
            "share": is_share(panels.metric),
            "log": panels.y.log,
            "target": panels.target,
            "curves": [_curve_numbers(curve, directions, axes) for curve in drawn],
        }
        charts.append(chart)
    return charts


def _curve_numbers(
    curve: Curve, directions: Sequence[str], axes: list[Positions]
) -> dict[str, Any]:
    """A curve for the script: its range only where several seeds differ.

    Positions that several curves share are in `axes` once.
    """
    positions = {}
    for name in (ROUNDS, *directions, SECONDS):
        positions[name] = _rounded(_positions(curve, name))
    if positions not in axes:
        axes.append(positions)

    numbers = {"name": curve.name, "x": axes.index(positions), "mean": _rounded(curve.mean)}
    if not np.array_equal(curve.low, curve.high):
        numbers["low"] = _rounded(curve.low)
        numbers["high"] = _rounded(curve.high)
    return numbers


def _costs_of(curve: Curve, column: str) -> np.ndarray:
    """What a method had spent at its rounds `[r]`; `[0]` where that is not counted."""
    counted = curve.track.values.get(column)
    if counted is None or np.isnan(counted).all():
        return np.zeros(0)
    return curve.mean_of(column)


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def lower_axes(rounds: pd.DataFrame | None) -> list[tuple[str, str]]:
    """All lower axes, each with its title."""
    return [(ROUNDS, TITLES[ROUNDS]), *byte_axes(rounds), (SECONDS, TITLES[SECONDS])]


def lacking(data: Mapping[str, list], axis: str) -> list[str]:
    """The methods that have no points along a lower axis, such as pooled training, without bytes.

    Args:
      data: the numbers for the script.
      axis: the lower axis.
    """
    names = []
    for chart in data["charts"]:
        for curve in chart["curves"]:
            if not data["axes"][curve["x"]][axis]:
                names.append(curve["name"])
    return list(dict.fromkeys(names))


def byte_axes(rounds: pd.DataFrame | None) -> list[tuple[str, str]]:
    """The axes of bytes, each with its title.

    Both directions together; and each by itself where the messages of some methods are larger than
    those of others.
    """
    axes = ["bytes"]
    if rounds is None or not {"bytes_up", "bytes_down"} <= {*rounds}:
        return [(name, TITLES[name]) for name in axes]
    last = rounds[rounds["round"] == rounds["round"].max()]
    if any(pd.Series(last[name]).nunique() > 1 for name in ("bytes_up", "bytes_down")):
        axes += ["up", "down"]
    return [(name, TITLES[name]) for name in axes]


def _with_entropy(rounds: pd.DataFrame) -> pd.DataFrame:
    """With the columns `KIND/entropy_bytes` as one: no method has two of them."""
    reported = [name for name in rounds if str(name).endswith("/entropy_bytes")]
    if not reported:
        return rounds
    return rounds.assign(entropy_bytes=rounds[reported].bfill(axis=1).iloc[:, 0])
