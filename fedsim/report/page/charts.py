"""The curves of the page, from `rounds.csv`.

There is a group of charts per metric, and in it a chart per variation; the charts of a group share
one upright axis. The score is drawn over rounds, bytes and seconds, of which one is seen.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures.on_page import Lower, along, curves_on_page
from fedsim.report.figures.panels import Panel, wide
from fedsim.report.page.folding import columns, those_that_differ
from fedsim.report.page.opening import ROUNDS, SECONDS, TITLES
from fedsim.report.pictures.curves import Curve, curves
from fedsim.report.pictures.looks import colour_class
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
MANY_METRICS = 4  # further metrics that are shown at once, side by side; more are folded away
DIGITS = 5  # significant digits of the numbers that the script shows

Positions = dict[str, list[float]]
"""where the points of a curve lie on every lower axis: rounds, bytes, seconds"""


class Metric(NamedTuple):
    """The curves of one metric.

    Attributes:
      name: a column of `rounds.csv`.
      panels: one per variation, none of which is empty.
      log: whether the upright axis, which all share, is logarithmic.
    """

    name: str
    panels: list[Panel]
    log: bool


def column_in_words(metric: str) -> str:
    """A column of `rounds.csv` in words."""
    return METRICS.get(metric, in_words(metric))


def charts(
    rounds: pd.DataFrame | None, order: Sequence[str], context: Context, opens: str = ROUNDS
) -> tuple[list[dict[str, Any]], dict[str, list]]:
    """The groups of charts for the template, and the numbers for the script.

    The metric of the context comes first, over every lower axis; the others over the one with which
    the page opens.

    Args:
      rounds: the columns of `rounds.csv`.
      order: methods in the order of the result.
      context: what is shown.
      opens: the lower axis with which the page opens.
    """
    groups: list[dict[str, Any]] = []
    data: dict[str, list] = {"axes": [], "charts": []}
    if rounds is None:
        return groups, data

    rounds = _with_entropy(rounds)
    tables = by_variant(rounds)
    metrics = []
    for name in filter(None, dict.fromkeys([context.metric, *METRICS])):
        metric = _metric(tables, name, order)
        if metric is not None:
            metrics.append(metric)
    directions = [key for key, _ in byte_axes(rounds)]
    for metric in metrics:
        keys = [opens]
        if not groups:
            keys = [ROUNDS, *directions, SECONDS]
        group, numbers = _group(metric, keys, opens, context, len(metrics), data)
        groups.append(group)
        data["charts"] += numbers
    return groups, data


def _metric(tables: Mapping[str, pd.DataFrame], name: str, methods: Sequence[str]) -> Metric | None:
    """The curves of a metric; None where no variation has one."""
    panels = []
    for variant, table in tables.items():
        columns = (name, "test_loss", "bytes_up", "bytes_down", "virtual_seconds")
        drawn = curves(tracks(table, columns), [name], methods)
        nonempty = [curve for curve in drawn if len(curve.rounds)]
        if nonempty:
            panels.append(Panel((name,), "", nonempty, variant))
    if not panels:
        return None
    return Metric(name, panels, not is_share(name) and wide(panels))


def _group(
    metric: Metric,
    keys: Sequence[str],
    opens: str,
    context: Context,
    metrics: int,
    data: Mapping[str, list],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The charts of a metric for the template, and their numbers for the script.

    Args:
      metric: what is drawn.
      keys: the lower axes.
      opens: the lower axis that is seen first.
      context: what is shown.
      metrics: how many there are.
      data: the charts before it, and the positions that curves share, to which those are added.
    """
    words = column_in_words(metric.name)
    labels = [context.words(panel.variant) for panel in metric.panels]
    full = [f"{words}, {label}" if label else words for label in labels]
    first = len(data["charts"])
    ends = [_spread_at_the_end(panel.curves) for panel in metric.panels]
    shown = those_that_differ(metric.panels, ends).shown
    abreast = columns(len(shown))
    if first and len(metric.panels) == 1:  # beside those of other metrics
        abreast = columns(min(metrics - 1, MANY_METRICS))

    spans: list[dict[str, Any]] = [{} for _ in metric.panels]
    pictures: list[dict[str, Markup]] = [{} for _ in metric.panels]
    for key in keys:
        log = _bytes_differ(metric.panels, key)
        lower = Lower(key, TITLES[key], log, whole=key == ROUNDS)
        panels = metric.panels
        if key != ROUNDS:
            panels = [_along(panel, key, log) for panel in panels]
        for index, drawn in enumerate(curves_on_page(panels, lower, abreast, full, context)):
            spans[index][key] = drawn.span
            pictures[index][key] = drawn.picture

    charts = []
    numbers = []
    for index, panel in enumerate(metric.panels):
        charts.append(
            {
                "id": first + index,
                "label": labels[index],
                "picture": pictures[index][opens],
                "others": [
                    _hidden(drawn) for key, drawn in pictures[index].items() if key != opens
                ],
            }
        )
        of_panel = [_curve_numbers(curve, keys, data["axes"]) for curve in panel.curves]
        numbers.append({"spans": spans[index], "curves": of_panel})
    group = {
        "words": words,
        "title": f"{words}, logarithmic" if metric.log else words,
        "panels": those_that_differ(charts, ends),
    }
    return group, numbers


def _hidden(picture: Markup) -> Markup:
    """A picture that is not seen until the script shows it."""
    return Markup(str(picture).replace("<svg ", "<svg hidden ", 1))


def _along(panel: Panel, key: str, log: bool) -> Panel:
    """A panel over another lower axis than rounds."""
    moved = [along(curve, _positions(curve, key), log) for curve in panel.curves]
    return panel._replace(curves=[curve for curve in moved if len(curve.rounds)])


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


def _bytes_differ(panels: Sequence[Panel], key: str) -> bool:
    """Whether some curves send many times the bytes of others; their axis is logarithmic then."""
    if key in (ROUNDS, SECONDS):
        return False
    sent = []  # by each curve until its end
    for panel in panels:
        for curve in panel.curves:
            positions = _positions(curve, key)
            if len(positions) and positions[-1] > 0:
                sent.append(float(positions[-1]))
    return bool(sent) and max(sent) > MANY_TIMES * min(sent)


def _curve_numbers(curve: Curve, keys: Sequence[str], axes: list[Positions]) -> dict[str, Any]:
    """The means of a curve for the script; positions that several curves share are in `axes` once.

    Args:
      curve: over rounds.
      keys: the lower axes.
      axes: positions of curves before it.
    """
    positions = {key: _rounded(_positions(curve, key)) for key in keys}
    if positions not in axes:
        axes.append(positions)
    return {
        "name": curve.name,
        "look": colour_class(curve.rank),
        "x": axes.index(positions),
        "mean": _rounded(curve.mean),
    }


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
            if not data["axes"][curve["x"]].get(axis):
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
