"""The results of methods, a row each, for the page and the terminal; and where the time went."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.study.pairing import others
from fedsim.study.standings import Standing, wins
from fedsim.study.summary import larger_is_better, median_to_target, ran

NEVER = 1e300  # where a target that was not reached is sorted
Row = dict[str, Any]
Cell = tuple[str, Any]  # as it is shown, and as it is sorted
# title -> column of `compare.csv` that decides whether there is one, and how it is written
DIFFERENCES = {
    "difference": ("difference", "{difference:+.4f}"),
    "95 %": ("ci_low", "{ci_low:+.4f} to {ci_high:+.4f}"),
    "p (Holm)": ("p_adjusted", "{p_adjusted:.3g}"),
}


def rows_of(table: pd.DataFrame) -> list[Row]:
    """A table's rows, None where a cell is empty or no number."""
    return [
        {str(k): None if v != v else v for k, v in row.items()} for row in table.to_dict("records")
    ]


def by(rows: Sequence[Row], *names: str) -> dict[tuple, list[Row]]:
    """Rows that agree in some columns, in the order in which they appear."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups


def results(
    summary: Sequence[Row],
    compare: Sequence[Row] | None,
    score: str,
    variants: Sequence[Any] = (),
    by_variation: Mapping[str, Sequence[Standing]] | None = None,
) -> list[dict[str, Cell]]:
    """A row per method (and variation), the baseline and then the best first, cells by column;
    `score` is a mean.

    Args:
      summary: the rows of `summary.csv`.
      compare: those of `compare.csv`, where there is one.
      score: `final`, `best` or `mean_last_k`.
      variants: in their order; left out: as they appear.
      by_variation: the standings of methods, whose verdicts are a column; left out: without it.
    """
    standing = {(s.method, name): s for name, group in (by_variation or {}).items() for s in group}
    standing = standing if any(one.verdict for one in standing.values()) else {}
    keys = [name for name in ("method", "variant", "tuned") if any(name in row for row in summary)]
    differences = None if compare is None else {_key(row): row for row in others(compare)}
    runs = by(summary, "method", "variant")
    better = larger_is_better(metric_of(summary))
    aimed = any(row.get("rounds_to_target") is not None for row in summary)
    variants = variants or list(dict.fromkeys(row.get("variant") for row in summary))
    ranked = []
    for names, group in by(summary, *keys).items():
        key, words = _key(group[0]), [str(name or "") for name in names]
        row = dict(zip(keys, zip(words, words, strict=True), strict=True)) | _scores(group, score)
        if aimed:
            row["rounds to target"] = reached(group, "rounds_to_target", 1, ".0f")
            row["MB to target"] = reached(group, "bytes_to_target", 1e6, ".3g")
        if differences is not None:
            difference = differences.get(key)
            row |= _difference(difference)
            row["better in"] = (
                _wins(difference, group, runs, score, better) if difference else ("", "")
            )
            if standing:
                said = standing[key[0], key[1] or ""].verdict
                row["verdict"] = (said, said)
        mean: Any = row["score"][1]
        worse = math.inf if mean == "" else -mean if better else mean
        ranked.append(
            ((variants.index(key[1]), differences is not None and key in differences, worse), row)
        )
    return [row for _, row in sorted(ranked, key=lambda one: one[0])]


def metric_of(summary: Sequence[Row]) -> str:
    """The column of `rounds.csv` that scores are of."""
    return next((str(row["metric"]) for row in summary if row.get("metric")), "")


def times(timing: pd.DataFrame | None, names: Sequence[str]) -> dict[str, Any] | None:
    """Where the time went: the last row of every run, summed by method."""
    if timing is None:
        return None
    rows = rows_of(timing)
    last = by([group[-1] for group in by(rows, "method", "variant", "seed").values()], "method")
    lines = []
    for name in names:
        runs = last.get((name,), [])
        busy = [
            row["lane_efficiency"]
            for row in rows
            if row["method"] == name and row["lane_efficiency"]
        ]
        wall, compiling = (
            sum(row[column] for row in runs) for column in ("wall_seconds", "compile_seconds")
        )
        rate = statistics.fmean(row["steps_per_second"] for row in runs) if runs else 0.0
        lanes = f"{statistics.fmean(busy):.0%}" if busy else ""
        lines.append(
            (name, str(len(runs)), f"{wall:.1f}", f"{compiling:.1f}", f"{rate:,.0f}", lanes)
        )
    head = (
        "method",
        "runs",
        "seconds",
        "of them compiling",
        "local steps per second",
        "lanes busy",
    )
    return {"head": head, "rows": lines}


def _key(row: Mapping[str, Any]) -> tuple:
    return row["method"], row.get("variant")


def _scores(rows: Sequence[Row], score: str) -> dict[str, Cell]:
    """Runs, mean and standard deviation of their scores, and the mean of their best rounds; nothing
    is left out.
    """
    values = [row[score] for row in rows if row.get(score) is not None]
    best = [row["best"] for row in rows if row.get("best") is not None]
    bad = sum(bool(row.get("diverged")) or not ran(row) for row in rows)
    numbers = {
        "score": statistics.fmean(values) if values else None,
        "sd": statistics.stdev(values)
        if len(values) > 1 and all(map(math.isfinite, values))
        else None,
        "best": statistics.fmean(best) if best else None,
    }
    cells = {
        name: ("", "") if value is None else (f"{value:.4f}", value)
        for name, value in numbers.items()
    }
    return {"runs": (f"{len(rows)}, {bad} bad" if bad else str(len(rows)), len(rows)), **cells}


def amount(count: float) -> str:
    """Bytes in the largest unit of which there is one.

    >>> amount(14_812_345_678), amount(220_000), amount(12)
    ('14.8 GB', '220 kB', '12 bytes')
    """
    powers = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}
    unit, size = next(
        ((unit, size) for unit, size in powers.items() if count >= size), ("bytes", 1.0)
    )
    return f"{count / size:.3g} {unit}"


def reached(rows: Sequence[Row], name: str, unit: float, form: str) -> Cell:
    """The median over the runs, of which those that did not reach the target count as without
    bound, and how many did.
    """
    median, arrived = median_to_target(rows, name)
    if not arrived:
        return "not reached", NEVER
    some = "" if arrived == len(rows) else f" ({arrived} of {len(rows)})"
    if math.isinf(median):
        return f"∞{some}", NEVER
    return f"{median / unit:{form}}{some}", median / unit


def _wins(
    row: Row, group: Sequence[Row], runs: Mapping[tuple, list[Row]], score: str, better: bool
) -> Cell:
    """Under how many of the shared seeds a method is better than the baseline, and under how many
    the same.
    """
    won, tied = wins(group, runs.get((row["baseline"], row.get("variant")), []), score, better)
    words = f"{won} of {row['seeds']}{f', {tied} tied' if tied else ''}"
    return words if row["seeds"] else "", row["probability_of_improvement"]


def _difference(row: Row | None) -> dict[str, Cell]:
    """Cells of a method against the baseline; of the baseline itself one word."""
    if row is None:
        return {**dict.fromkeys(DIFFERENCES, ("", "")), "difference": ("baseline", 0)}
    return {
        name: ("", "") if row[column] is None else (form.format(**row), row[column])
        for name, (column, form) in DIFFERENCES.items()
    }
