"""The pictures of the page, from the tables of runs: a chart per metric and variation, differences, clients, the partition."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.report.page import plot
from fedsim.report.results import rows_of
from fedsim.report.series import by_variant, series, tracks
from fedsim.study.label_skew import counts_of_rows
from fedsim.study.summary import larger_is_better

METRICS = {
    "test_accuracy": "test accuracy",
    "test_r2": "test R²",
    "test_mae": "test mean absolute error",
    "test_loss": "test loss",
    "train_loss": "train loss",
    "update_norm": "norm of a client's update",
    "drift": "drift of clients around their mean",
    "cosine": "cosine between two clients' updates",
}
MOST_CLIENTS = 60  # of the picture of the partition; more are chosen evenly, largest to smallest
DIGITS = 5  # significant, of what the script draws


def charts(
    rounds: pd.DataFrame | None, names: Sequence[str], scenario: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, list]]:
    """A chart per metric and variation: for the template, and the numbers by which the script moves it."""
    charts: list[dict[str, Any]] = []
    data: dict[str, list] = {"axes": [], "charts": []}
    if rounds is None:
        return charts, data
    evaluate = scenario.get("evaluate", {})
    for metric, words in METRICS.items():
        for variant, table in by_variant(rounds).items():
            curves = _curves(table, metric, names)
            if not curves:
                continue
            target = evaluate.get("target") if evaluate.get("metric") == metric else None
            label = f"{words}, {variant}" if variant else words
            share = metric == "test_accuracy"
            picture = plot.lines(curves, label, share, target)
            charts.append({"metric": metric, "label": label, "picture": picture, "id": len(data["charts"])})
            numbers = [_numbers(curve, data["axes"]) for curve in curves]
            data["charts"].append({"share": share, "target": target, "curves": numbers})
    return charts, data


def _curves(table: pd.DataFrame, metric: str, names: Sequence[str]) -> list[plot.Curve]:
    """Means and ranges over the seeds, at rounds that all of them have; bytes and seconds are means as well."""
    curves = []
    columns = (metric, "test_loss", "bytes_up", "bytes_down", "virtual_seconds")
    for track in tracks(table, columns):
        if metric not in track.values:
            continue
        rounds, values = series(track, metric).common()
        if not len(rounds):
            continue
        at = {name: dict(zip(*series(track, name).common(), strict=True)) for name in columns[2:]}
        mean = lambda name, at=at, rounds=rounds: [float(np.mean(at[name][r])) for r in rounds]
        both = [up + down for up, down in zip(mean("bytes_up"), mean("bytes_down"), strict=True)]
        curve = plot.Curve(
            name=track.name,
            place=names.index(track.name),
            x={"round": [float(r) for r in rounds], "bytes": both, "seconds": mean("virtual_seconds")},
            mean=values.mean(1).tolist(),
            low=values.min(1).tolist(),
            high=values.max(1).tolist(),
        )
        curves.append(curve)
    return curves


def _numbers(curve: plot.Curve, axes: list[dict[str, list[float]]]) -> dict[str, Any]:
    """A curve as the script reads it: its places on the axes are kept once, ranges only where there are several seeds."""
    brief = lambda values: [float(f"{v:.{DIGITS}g}") for v in values]
    x = {name: brief(values) for name, values in curve.x.items()}
    if x not in axes:
        axes.append(x)
    numbers = {"name": curve.name, "x": axes.index(x), "mean": brief(curve.mean)}
    return numbers if curve.low == curve.high else {**numbers, "low": brief(curve.low), "high": brief(curve.high)}


def forests(compare: pd.DataFrame | None) -> list[tuple[str, Markup]]:
    """A forest plot per variation."""
    forests = []
    for variant, table in by_variant(compare).items() if compare is not None else ():
        rows = rows_of(table)
        metric, baseline = str(rows[0]["metric"]), rows[0]["baseline"]
        side = "right is better" if larger_is_better(metric) else "left is better"
        forests.append((variant, plot.forest(rows, f"difference to {baseline} in {metric.replace('_', ' ')} ({side})")))
    return forests


def spreads(clients: pd.DataFrame | None, names: Sequence[str]) -> list[tuple[str, Markup]]:
    """Per variation how the accuracies of clients spread."""
    if clients is None or "global_accuracy" not in clients:
        return []
    label, spreads = "accuracy of the final model on the client's own samples", []
    for variant, table in by_variant(clients).items():
        by = {str(name): part["global_accuracy"].dropna() for name, part in table.groupby("method", sort=False)}
        rows = [(name, names.index(name), values.tolist()) for name, values in by.items()]
        spreads.append((variant, plot.spread(rows, label)))
    return spreads


def partition(table: pd.DataFrame | None) -> dict[str, Any] | None:
    """A heat map of the partition, and its sizes in words."""
    if table is None:
        return None
    counts = counts_of_rows(next(iter(by_variant(table).values())))
    sizes = counts.sizes
    order = np.argsort(-sizes, kind="stable")
    few = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_CLIENTS)).astype(int))]
    some = f"{len(few)} of {len(order)} clients, evenly chosen" if len(few) < len(order) else f"{len(order)} clients"
    up = "label" if len(counts.labels) > 1 else "samples"
    ends = f"{sizes.min():,} to {sizes.max():,} a client, {int(np.median(sizes)):,} in the middle"
    picture = plot.heat_map(counts.samples[few], f"{some}, largest first", up)
    return {"picture": picture, "sizes": f"{sizes.sum():,} samples; {ends}"}
