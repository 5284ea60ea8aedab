"""The curves of the page, from `rounds.csv`: a group per metric, a chart in it per variation, with
one common axis.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsim.report.about import About
from fedsim.report.page import plot
from fedsim.report.pictures.curves import Curve, curves
from fedsim.report.series import by_variant, tracks
from fedsim.study.summary import is_share

METRICS = {
    "test_accuracy": "test accuracy",
    "test_loss": "test loss",
    "test_r2": "R² on test data",
    "test_mae": "mean absolute error on test data",
    "train_loss": "train loss",
    "attack_success": "attack success",
    "update_norm": "norm of a client's update",
    "drift": "drift of clients around their mean",
    "cosine": "cosine between two clients' updates",
    "entropy_bytes": "bytes of a message behind an entropy code",
}
DIGITS = 5  # significant, of what the script draws


def words_of(metric: str) -> str:
    """A column of `rounds.csv` in words."""
    return METRICS.get(metric, metric.replace("_", " "))


def charts(
    rounds: pd.DataFrame | None, looks: Mapping[str, str], about: About
) -> tuple[list[dict[str, Any]], dict[str, list]]:
    """A group of charts per metric, a chart in it per variation: for the template, and the numbers
    for the script.

    Args:
      rounds: the columns of `rounds.csv`.
      looks: the classes of every method's curve, in the order of the result.
      about: what is shown; its metric stands first.
    """
    groups: list[dict[str, Any]] = []
    data: dict[str, list] = {"axes": [], "charts": []}
    if rounds is None:
        return groups, data
    rounds = _with_entropy(rounds)
    evaluate, variants = about.scenario.get("evaluate", {}), by_variant(rounds)
    ways = [axis for axis, _ in byte_axes(rounds)]
    for metric in sorted(METRICS, key=lambda name: name != about.metric):
        panels = {name: _curves(table, metric, [*looks]) for name, table in variants.items()}
        panels = {name: some for name, some in panels.items() if some}
        if not panels:
            continue
        share, target = (
            is_share(metric),
            evaluate.get("target") if evaluate.get("metric") == metric else None,
        )
        y, drawn = plot.height_axis(list(panels.values()), share), []
        for name, some in panels.items():
            number, label = len(data["charts"]), about.words(name)
            numbers = [_numbers(curve, ways, data["axes"]) for curve in some]
            full = f"{words_of(metric)}, {label}" if label else words_of(metric)
            drawn.append(
                {
                    "id": number,
                    "label": label,
                    "picture": plot.lines(some, looks, full, y, number, target),
                }
            )
            data["charts"].append(
                {
                    "group": len(groups),
                    "share": share,
                    "log": y.log,
                    "target": target,
                    "curves": numbers,
                }
            )
        title = f"{words_of(metric)}{', logarithmic' if y.log else ''}"
        groups.append(
            {"number": len(groups), "words": words_of(metric), "title": title, "panels": drawn}
        )
    return groups, data


def byte_axes(rounds: pd.DataFrame | None) -> list[tuple[str, str]]:
    """The axes of bytes: both ways together, and each by itself where messages of some methods are
    larger than others.
    """
    axes = [("bytes", "bytes sent, both ways")]
    if rounds is None or not {"bytes_up", "bytes_down"} <= {*rounds}:
        return axes
    last = pd.DataFrame(rounds[rounds["round"] == rounds["round"].max()])
    differ = any(pd.Series(last[name]).nunique() > 1 for name in ("bytes_up", "bytes_down"))
    return [*axes, ("up", "bytes up"), ("down", "bytes down")] if differ else axes


def _with_entropy(rounds: pd.DataFrame) -> pd.DataFrame:
    """The columns `KIND/entropy_bytes` as one: no method has two of them."""
    reported = [name for name in rounds if str(name).endswith("/entropy_bytes")]
    return (
        rounds.assign(entropy_bytes=rounds[reported].bfill(axis=1).iloc[:, 0])
        if reported
        else rounds
    )


def _curves(table: pd.DataFrame, metric: str, names: Sequence[str]) -> list[Curve]:
    """The curves of a metric that have a round which all seeds have."""
    of_methods = tracks(table, (metric, "test_loss", "bytes_up", "bytes_down", "virtual_seconds"))
    return [one for one in curves(of_methods, [metric], names) if len(one.rounds)]


def _numbers(
    curve: Curve, ways: Sequence[str], axes: list[dict[str, list[float]]]
) -> dict[str, Any]:
    """A curve as the script reads it: its places on the axes are kept once, ranges only where there
    are several seeds.
    """
    brief = lambda values: [float(f"{v:.{DIGITS}g}") for v in values]
    sent = {"up": curve.mean_of("bytes_up"), "down": curve.mean_of("bytes_down")}
    sent["bytes"] = sent["up"] + sent["down"]
    x = {
        "round": brief(curve.rounds),
        **{way: brief(sent[way]) for way in ways},
        "seconds": brief(curve.mean_of("virtual_seconds")),
    }
    if x not in axes:
        axes.append(x)
    numbers = {"name": curve.name, "x": axes.index(x), "mean": brief(curve.mean)}
    low, high = brief(curve.low), brief(curve.high)
    return (
        numbers if np.array_equal(curve.low, curve.high) else {**numbers, "low": low, "high": high}
    )
