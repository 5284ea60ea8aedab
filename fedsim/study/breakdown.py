"""Where a method falls apart along a numeric axis, such as the share of malicious clients."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedsim.scenario.shorthand import top_level
from fedsim.study.pairing import SURE
from fedsim.study.statistics import half_width_of, holm, more_than_nothing
from fedsim.study.summary import Record, larger_is_better

AXIS = "fleet.malicious"
LEAST = 3  # values that make a curve


def untrained(rounds: Iterable[Record], metric: str) -> dict[str, float]:
    """The mean score of the start models, by variation.

    Args:
      rounds: rows of `rounds.csv`.
      metric: a column of it.
    """
    scores: dict[str, list[float]] = {}
    for row in rounds:
        if row["round"] == 0 and row.get(metric) is not None:
            scores.setdefault(row.get("variant") or "", []).append(row[metric])
    return {variant: float(np.mean(values)) for variant, values in scores.items()}


def beside(variant: str | None, path: str) -> str:
    """What varies beside a path.

    >>> beside("fleet.malicious=0.2, wire=[zero]", "fleet.malicious")
    'wire=[zero]'
    """
    parts = top_level(variant) if isinstance(variant, str) else []
    return ", ".join(part for part in parts if part.partition("=")[0].strip() != path)


def breakdowns(
    compared: Sequence[Record], rounds: Iterable[Record], path: str = AXIS, least: int = LEAST
) -> list[Record]:
    """Every method along an axis: the rows of `breakdown.csv`, whose axis is the share of malicious
    clients.

    A method of which it is not sure that training gains anything at all, after Holm over all of
    them, neither holds nor falls anywhere.

    Args:
      compared: rows of `compare.csv`.
      rounds: rows of `rounds.csv`, for the score of the untrained model.
      path: of the axis.
      least: values along it that make a curve; of methods with fewer there are no rows.
    """
    groups: dict[tuple[str, str], dict[float, Record]] = {}
    for row in compared:
        value = _number(row.get(path))
        if value is not None and row.get("metric"):
            groups.setdefault((beside(row.get("variant"), path), row["method"]), {})[value] = row
    groups = {who: rows for who, rows in groups.items() if len(rows) >= least}
    if not groups:
        return []
    metric = next(str(row["metric"]) for rows in groups.values() for row in rows.values())
    start = untrained(rounds, metric)
    ordered = sorted(groups.items())
    gained = holm([_no_gain(rows, start) for _, rows in ordered])
    return [
        _row(rest, method, rows, start, p is not None and p < SURE)
        for ((rest, method), rows), p in zip(ordered, gained, strict=True)
    ]


def breakdown(
    values: Sequence[float],
    means: Sequence[float],
    sds: Sequence[float | None],
    seeds: Sequence[int],
    start: float,
    larger_is_better: bool,
) -> float | None:
    """The break-down point of a method: the first value of an axis from which on less than half of
    its gain is left.

    The gain at a value is the mean score less that of the untrained model. The axis is walked from
    that of its two ends where the gain is larger, g; the break-down point is the first value at
    which, and at all values beyond, the gain is below g/2, half-way down to the untrained model. It
    is one of the values that were tried: the true one lies between it and the value before. None
    where no value is like that, or where g itself cannot be told from 0.

    Args:
      values: of the axis `[n]`, rising.
      means: of the scores there `[n]`; NaN where there are none, infinite where runs diverged.
      sds: their standard deviations `[n]`; None where they are not known.
      seeds: over which they are `[n]`.
      start: the score of the untrained model.
      larger_is_better: of the score.

    >>> breakdown([0, 0.1, 0.2, 0.3], [0.9, 0.88, 0.4, 0.1], [0.01] * 4, [5] * 4, start=0.1, larger_is_better=True)
    0.2
    """
    gains = (np.asarray(means, float) - start) * (1 if larger_is_better else -1)
    order = np.flatnonzero(~np.isnan(gains))
    if len(order) < 2:
        return None
    if gains[order[-1]] > gains[order[0]]:
        order = order[::-1]
    first = order[0]
    sd = sds[first]
    if not gains[first] > (0.0 if sd is None else half_width_of(sd, seeds[first])):
        return None
    left = gains[order] >= gains[first] / 2
    beyond = int(np.flatnonzero(left)[-1]) + 1
    return float(values[order[beyond]]) if beyond < len(order) else None


def _no_gain(rows: Mapping[float, Record], start: Mapping[str, float]) -> float | None:
    """The p of a method gaining nothing at the better of the two ends of its axis; None where it
    cannot be tested.
    """
    p_values = []
    for value in (min(rows), max(rows)):
        row = rows[value]
        untrained_score = start.get(row.get("variant") or "")
        if untrained_score is None or row["mean"] is None or row["sd"] is None:
            continue
        gain = row["mean"] - untrained_score
        gain = gain if larger_is_better(row["metric"]) else -gain
        p_values.append(more_than_nothing(gain, row["sd"], row["seeds"]))
    return min(1.0, 2 * len(p_values) * min(p_values)) if p_values else None


def _row(
    rest: str, method: str, rows: Mapping[float, Record], start: Mapping[str, float], gained: bool
) -> Record:
    values = sorted(rows)
    first = rows[values[0]]
    untrained_score = start.get(first.get("variant") or "")
    means = [np.nan if rows[v]["mean"] is None else rows[v]["mean"] for v in values]
    sds, seeds = [rows[v]["sd"] for v in values], [rows[v]["seeds"] for v in values]
    better = larger_is_better(first["metric"])
    falls = None
    if untrained_score is not None and gained:
        falls = breakdown(values, means, sds, seeds, untrained_score, better)
    return {
        "method": method,
        **({"variant": rest} if rest else {}),
        "metric": first["metric"],
        "score": first["score"],
        "values": len(values),
        "untrained": untrained_score,
        "mean": first["mean"],
        "holds": max((v for v in values if gained and (falls is None or v < falls)), default=None),
        "falls": falls,
    }


def _number(value: Any) -> float | None:
    """A share of clients as it stands in a table; None where it is none."""
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
