"""The curves of the page, from `rounds.csv`: a group per metric, a chart in it per variation, with one common axis."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsim.report.page import plot
from fedsim.report.series import Series, by_variant, series, tracks
from fedsim.study.summary import is_share
from fedsim.study.words import variation

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
    rounds: pd.DataFrame | None, looks: Mapping[str, str], scenario: Mapping[str, Any], first: str
) -> tuple[list[dict[str, Any]], dict[str, list]]:
    """A group of charts per metric, a chart in it per variation: for the template, and the numbers for the script.

    Args:
      rounds: the columns of `rounds.csv`.
      looks: the classes of every method's curve, in the order of the result.
      scenario: as in `run.json`.
      first: the metric that stands first.
    """
    groups: list[dict[str, Any]] = []
    data: dict[str, list] = {"axes": [], "charts": []}
    if rounds is None:
        return groups, data
    rounds = _with_entropy(rounds)
    evaluate, variants = scenario.get("evaluate", {}), by_variant(rounds)
    ways = [axis for axis, _ in byte_axes(rounds)]
    for metric in sorted(METRICS, key=lambda name: name != first):
        panels = {name: _curves(table, metric, looks, ways) for name, table in variants.items()}
        panels = {name: curves for name, curves in panels.items() if curves}
        if not panels:
            continue
        share, target = (
            is_share(metric),
            evaluate.get("target") if evaluate.get("metric") == metric else None,
        )
        y, drawn = plot.height_axis(list(panels.values()), share), []
        for name, curves in panels.items():
            number, label = len(data["charts"]), variation(name, scenario)
            numbers = [_numbers(curve, data["axes"]) for curve in curves]
            full = f"{words_of(metric)}, {label}" if label else words_of(metric)
            drawn.append({"id": number, "label": label, "picture": plot.lines(curves, full, y, number, target)})
            data["charts"].append(
                {"group": len(groups), "share": share, "log": y.log, "target": target, "curves": numbers}
            )
        title = f"{words_of(metric)}{', logarithmic' if y.log else ''}"
        groups.append({"number": len(groups), "words": words_of(metric), "title": title, "panels": drawn})
    return groups, data


def byte_axes(rounds: pd.DataFrame | None) -> list[tuple[str, str]]:
    """The axes of bytes: both ways together, and each by itself where messages of some methods are larger than others."""
    axes = [("bytes", "bytes sent, both ways")]
    if rounds is None or not {"bytes_up", "bytes_down"} <= {*rounds}:
        return axes
    last = pd.DataFrame(rounds[rounds["round"] == rounds["round"].max()])
    differ = any(pd.Series(last[name]).nunique() > 1 for name in ("bytes_up", "bytes_down"))
    return [*axes, ("up", "bytes up"), ("down", "bytes down")] if differ else axes


def _with_entropy(rounds: pd.DataFrame) -> pd.DataFrame:
    """The columns `KIND/entropy_bytes` as one: no method has two of them."""
    reported = [name for name in rounds if str(name).endswith("/entropy_bytes")]
    return rounds.assign(entropy_bytes=rounds[reported].bfill(axis=1).iloc[:, 0]) if reported else rounds


def _curves(table: pd.DataFrame, metric: str, looks: Mapping[str, str], ways: Sequence[str]) -> list[plot.Curve]:
    """Means and ranges over the seeds that have this metric, at rounds that all of those have; bytes and seconds are means
    over the same seeds.
    """
    curves, names = [], list(looks)
    columns = (metric, "test_loss", "bytes_up", "bytes_down", "virtual_seconds")
    for track in tracks(table, columns):
        if metric not in track.values:
            continue
        one = series(track, metric)
        rounds, values = one.common()
        if not len(rounds):
            continue
        mean = lambda name, track=track, seeds=one.seeds, rounds=rounds: _means(series(track, name), seeds, rounds)
        sent = {"up": mean("bytes_up"), "down": mean("bytes_down")}
        sent["bytes"] = [up + down for up, down in zip(sent["up"], sent["down"], strict=True)]
        curve = plot.Curve(
            name=track.name,
            place=names.index(track.name),
            look=looks[track.name],
            x={
                "round": [float(r) for r in rounds],
                **{way: sent[way] for way in ways},
                "seconds": mean("virtual_seconds"),
            },
            mean=values.mean(1).tolist(),
            low=values.min(1).tolist(),
            high=values.max(1).tolist(),
        )
        curves.append(curve)
    return sorted(curves, key=lambda curve: curve.place)


def _means(numbers: Series, seeds: np.ndarray, rounds: np.ndarray) -> list[float]:
    """The mean over some seeds at each of some rounds, at which all of them have a value."""
    places = np.ix_(np.searchsorted(numbers.rounds, rounds), np.searchsorted(numbers.seeds, seeds))
    return numbers.values[places].mean(1).tolist()


def _numbers(curve: plot.Curve, axes: list[dict[str, list[float]]]) -> dict[str, Any]:
    """A curve as the script reads it: its places on the axes are kept once, ranges only where there are several seeds."""
    brief = lambda values: [float(f"{v:.{DIGITS}g}") for v in values]
    x = {name: brief(values) for name, values in curve.x.items()}
    if x not in axes:
        axes.append(x)
    numbers = {"name": curve.name, "x": axes.index(x), "mean": brief(curve.mean)}
    return numbers if curve.low == curve.high else {**numbers, "low": brief(curve.low), "high": brief(curve.high)}
