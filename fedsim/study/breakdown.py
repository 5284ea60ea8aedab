"""Where a method breaks down along a numeric axis, such as the share of malicious clients."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.statistics import half_width_of, holm, p_mean_positive
from fedsim.study.summary import Record, larger_is_better, metric_of, variation_of
from fedsim.study.words import part_of

MALICIOUS_AXIS = "fleet.malicious"
MIN_VALUES = 3  # values that make a curve

RowsByValue = Mapping[float, Record]
"""a method's rows of `compare.csv` by their value on the axis"""


def untrained_scores(rounds: Iterable[Record], metric: str) -> dict[str, float]:
    """Return the mean score of the initial models, by variation."""
    scores: dict[str, list[float]] = {}
    for row in rounds:
        if row["round"] == 0 and row.get(metric) is not None:
            scores.setdefault(variation_of(row), []).append(row[metric])
    return {variation: float(np.mean(values)) for variation, values in scores.items()}


def without_path(variant: str | None, path: str) -> str:
    """Return what varies apart from a path."""
    return part_of(variant, lambda other: other != path) if isinstance(variant, str) else ""


def breakdown_rows(
    compared: Sequence[Record],
    rounds: Iterable[Record],
    path: str = MALICIOUS_AXIS,
    min_values: int = MIN_VALUES,
) -> list[Record]:
    """Return the rows of `breakdown.csv`: every method along the axis of malicious clients.

    A method without a significant gain from training, after Holm over all methods, neither holds
    nor breaks down anywhere.
    """
    rows_by_value: dict[tuple[str, str], dict[float, Record]] = {}
    for row in compared:
        value = _number(row.get(path))
        if value is not None and row.get("metric"):
            key = (without_path(row.get("variant"), path), row["method"])
            rows_by_value.setdefault(key, {})[value] = row

    curves = {key: rows for key, rows in rows_by_value.items() if len(rows) >= min_values}
    start = untrained_scores(rounds, metric_of(compared))
    keys = sorted(curves)
    p_values = holm([_p_no_gain(curves[key], start) for key in keys])
    table = []
    for (rest, method), p in zip(keys, p_values, strict=True):
        gained = p is not None and p < SIGNIFICANCE_LEVEL
        table.append(_row(rest, method, curves[rest, method], start, gained))
    return table


def breakdown_point(
    values: Sequence[float],
    means: Sequence[float],
    sds: Sequence[float | None],
    seeds: Sequence[int],
    start: float,
    larger_is_better: bool,
) -> float | None:
    """Return the break-down point of a method: from there on it has less than half of its gain.

    The gain at a value is the mean score less that of the untrained model. The axis is walked from
    the end at which the gain is larger, g. The break-down point is the first value at which, and at
    all values beyond, the gain is below g/2, halfway down to the untrained model. It is one of the
    values that were tried: the true one lies between it and the value before. None if there is no
    such value, or if g itself cannot be distinguished from 0.

    Args:
      values: the values of the axis `[n]`, ascending.
      means: the mean scores there `[n]`; NaN if there are none, infinite if runs diverged.
      sds: the standard deviations of the scores `[n]`; None if they are unknown.
      seeds: the number of scores `[n]`.
      start: the score of the untrained model.
    """
    sign = 1 if larger_is_better else -1
    gains = (np.asarray(means, float) - start) * sign
    order = np.flatnonzero(~np.isnan(gains))
    if len(order) < 2:
        return None
    if gains[order[-1]] > gains[order[0]]:
        order = order[::-1]

    first = order[0]
    sd = sds[first]
    doubt = 0.0 if sd is None else half_width_of(sd, seeds[first])
    # Negated, so that NaN is no gain.
    if not gains[first] > doubt:
        return None

    keeps_half = gains[order] >= gains[first] / 2
    last_kept = int(np.flatnonzero(keeps_half)[-1])
    beyond = last_kept + 1
    if beyond == len(order):
        return None
    return float(values[order[beyond]])


def _p_no_gain(rows: RowsByValue, start: Mapping[str, float]) -> float | None:
    """The p-value of gaining nothing at the better end of the axis; None if it cannot be tested."""
    p_values = []
    for value in (min(rows), max(rows)):
        row = rows[value]
        untrained_score = start.get(variation_of(row))
        if untrained_score is None or row["mean"] is None or row["sd"] is None:
            continue
        sign = 1 if larger_is_better(row["metric"]) else -1
        gain = sign * (row["mean"] - untrained_score)
        p_values.append(p_mean_positive(gain, row["sd"], row["seeds"]))
    if not p_values:
        return None
    return min(1.0, 2 * len(p_values) * min(p_values))


def _row(
    rest: str, method: str, rows: RowsByValue, start: Mapping[str, float], gained: bool
) -> Record:
    """The row of `breakdown.csv` of a method."""
    values = sorted(rows)
    curve = [rows[value] for value in values]
    first = curve[0]
    untrained_score = start.get(variation_of(first))

    falls = None
    if untrained_score is not None and gained:
        falls = breakdown_point(
            values=values,
            means=[math.nan if row["mean"] is None else row["mean"] for row in curve],
            sds=[row["sd"] for row in curve],
            seeds=[row["seeds"] for row in curve],
            start=untrained_score,
            larger_is_better=larger_is_better(first["metric"]),
        )
    holds = None
    if gained:
        held = [value for value in values if falls is None or value < falls]
        holds = max(held, default=None)

    return {
        "method": method,
        **({"variant": rest} if rest else {}),
        "metric": first["metric"],
        "score": first["score"],
        "values": len(values),
        "untrained": untrained_score,
        "mean": first["mean"],
        "holds": holds,
        "falls": falls,
    }


def _number(value: Any) -> float | None:
    """A value of the axis as a number, from a cell of a table; None if it is not one."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
