"""The curves of the page, from `rounds.csv`.

There is a group of charts per metric, and in it a chart per variation; the charts of a group share
one upright axis. The score is drawn over rounds, bytes and seconds, of which one is seen.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.report.context import Context
from fedsim.report.figures.on_page import (
    SIZES,
    Drawn,
    Lower,
    Plotted,
    chart,
    curves_on_page,
)
from fedsim.report.figures.panels import Panel, wide
from fedsim.report.page.folding import columns, those_that_differ
from fedsim.report.page.opening import ROUNDS, SECONDS, TITLES
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
# columns whose sum is along a lower axis
SPENT = {
    SECONDS: ("virtual_seconds",),
    "up": ("bytes_up",),
    "down": ("bytes_down",),
    "bytes": ("bytes_up", "bytes_down"),
}
MANY_TIMES = 10.0  # an axis of bytes is logarithmic above that ratio of the methods' totals
MANY_METRICS = 4  # further metrics that are shown at once, side by side; more are folded away


class Metric(NamedTuple):
    """The curves of one metric.

    Attributes:
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
    rounds: pd.DataFrame | None,
    order: Sequence[str],
    context: Context,
    opens: str = ROUNDS,
    axes: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The groups of charts, as the template takes them.

    The metric of the context comes first, over every lower axis; the others over the one with which
    the page opens.

    Args:
      opens: the lower axis with which the page opens.
      axes: the lower axes; left out: rounds, bytes and seconds.
    """
    if rounds is None:
        return []
    rounds = _with_entropy(rounds)
    tables = by_variant(rounds)
    metrics = []
    for name in filter(None, dict.fromkeys([context.metric, *METRICS, *_measured(rounds)])):
        metric = _metric(tables, name, order)
        if metric is not None:
            metrics.append(metric)
    axes = axes or [key for key, _ in lower_axes(rounds)]
    keys = sorted(axes, key=lambda key: key != opens)
    beside = columns(min(len(metrics) - 1, MANY_METRICS))
    groups = []
    for metric in metrics:
        if groups:
            groups.append(_group(metric, [opens], context, beside))
        else:
            groups.append(_group(metric, keys, context, 1))
    return groups


def _measured(rounds: pd.DataFrame) -> list[str]:
    """The scores on test samples that only some runs measure."""
    return [str(name) for name in rounds if str(name).startswith("test_") and name not in METRICS]


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


def _group(metric: Metric, keys: Sequence[str], context: Context, beside: int) -> dict[str, Any]:
    """The charts of a metric, as the template takes them.

    Args:
      keys: the lower axes; the first is seen.
      beside: how many charts are side by side where there is only one variation.
    """
    words = column_in_words(metric.name)
    title = f"{words}, logarithmic" if metric.log else words
    labels = [context.words(panel.variant) for panel in metric.panels]
    full = [f"{words}, {label}" if label else words for label in labels]
    ends = [_spread_at_the_end(panel.curves) for panel in metric.panels]
    unfolded = those_that_differ(range(len(metric.panels)), ends).shown
    abreast = columns(len(unfolded))
    if len(metric.panels) == 1:
        abreast = beside

    pictures_of: list[list[Drawn]] = [[] for _ in metric.panels]
    for key in keys:
        log = _bytes_differ(metric.panels, key)
        panels = metric.panels
        if key != ROUNDS:
            panels = [_along(panel, key, log) for panel in panels]
        lower = Lower(key, TITLES[key], log, whole=key == ROUNDS)
        # Those that are folded away have one lower axis, so that pages stay small.
        wanted = range(len(panels)) if key == keys[0] else unfolded
        drawn = curves_on_page(panels, lower, SIZES[abreast], full, context, wanted)
        for number, picture in zip(wanted, drawn, strict=True):
            pictures_of[number].append(picture)

    charts = []
    for panel, label, text, pictures in zip(metric.panels, labels, full, pictures_of, strict=True):
        plotted = []
        for curve in panel.curves:
            positions = {key: _positions(curve, key) for key in keys}
            plotted.append(Plotted(curve.name, curve.rank, positions, curve.mean))
        figure = chart(label or title, pictures, plotted)
        charts.append({"figure": figure, "picture": pictures[0].picture, "text": text})
    return {
        "words": words,
        "title": title,
        "panels": those_that_differ(charts, ends),
        "lacking": _lacking(metric.panels, keys[0]),
    }


def _lacking(panels: Sequence[Panel], key: str) -> list[str]:
    """The methods without points along a lower axis, such as pooled training, without bytes."""
    names = []
    for panel in panels:
        names += [curve.name for curve in panel.curves if not len(_positions(curve, key))]
    return list(dict.fromkeys(names))


def _along(panel: Panel, key: str, log: bool) -> Panel:
    """A panel over another lower axis than rounds."""
    moved = [curve.over(_positions(curve, key), log) for curve in panel.curves]
    return panel._replace(curves=[curve for curve in moved if len(curve.rounds)])


def _spread_at_the_end(curves: Sequence[Curve]) -> float:
    ends = [float(curve.mean[-1]) for curve in curves]
    return max(ends) - min(ends)


def _positions(curve: Curve, axis: str) -> np.ndarray:
    """Where the points of a curve lie along a lower axis, `[r]`; `[0]` where that is unknown."""
    if axis == ROUNDS:
        return np.asarray(curve.rounds, float)
    return curve.spent(SPENT[axis])


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


def lower_axes(rounds: pd.DataFrame | None) -> list[tuple[str, str]]:
    """All lower axes, each with its title.

    Bytes are those of both directions together; and of each by itself where the messages of some
    methods are larger than those of others.
    """
    names = [ROUNDS, "bytes"]
    if rounds is not None and {"bytes_up", "bytes_down"} <= {*rounds}:
        last = rounds[rounds["round"] == rounds["round"].max()]
        if any(pd.Series(last[name]).nunique() > 1 for name in ("bytes_up", "bytes_down")):
            names += ["up", "down"]
    return [(name, TITLES[name]) for name in (*names, SECONDS)]


def _with_entropy(rounds: pd.DataFrame) -> pd.DataFrame:
    """With the columns `KIND/entropy_bytes` as one: no method has two of them."""
    reported = [name for name in rounds if str(name).endswith("/entropy_bytes")]
    if not reported:
        return rounds
    return rounds.assign(entropy_bytes=rounds[reported].bfill(axis=1).iloc[:, 0])
