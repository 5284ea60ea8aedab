"""The tables of the page: the results of methods, and where the time went."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.study.summary import larger_is_better

Row = dict[str, Any]
Cell = tuple[str, Any]  # as it is shown, and as it is sorted
DIFFERENCES = {
    "difference": "{difference:+.4f}",
    "ci_low": "{ci_low:+.4f} to {ci_high:+.4f}",
    "p_adjusted": "{p_adjusted:.3g}",
    "probability_of_improvement": "{probability_of_improvement:.0%}",
}


def rows_of(table: pd.DataFrame) -> list[Row]:
    """A table's rows, None where a cell is empty or no number."""
    return [{str(k): None if v != v else v for k, v in row.items()} for row in table.to_dict("records")]


def by(rows: Sequence[Row], *names: str) -> dict[tuple, list[Row]]:
    """Rows that agree in some columns, in the order in which they appear."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups


def sentences(summary: pd.DataFrame) -> list[str]:
    """The results of runs, a sentence per method."""
    lines = []
    for (method,), rows in by(rows_of(summary), "method").items():
        values = [row["final"] for row in rows if row["final"] is not None]
        metric, bad = str(rows[0]["metric"]).replace("_", " "), sum(bool(row["diverged"]) for row in rows)
        lost = f" {bad} of {len(rows)} runs diverged." if bad else ""
        over = f", mean of {len(rows)} seeds" if len(rows) > 1 else ""
        best = statistics.fmean(row["best"] for row in rows) if values and all(row["best"] for row in rows) else None
        most = f" (best {best:.4g})" if best is not None else ""
        result = f" {metric} {statistics.fmean(values):.4g}{most}{over}." if values else ""
        lines.append(f"{method}:{result}{lost}")
    return lines


def results(summary: pd.DataFrame | None, compare: pd.DataFrame | None, score: str) -> dict[str, Any] | None:
    """A row per method (and variation), the baseline and then the best first.

    Args:
      summary: the columns of `summary.csv`.
      compare: those of `compare.csv`, where there is one.
      score: `final`, `best` or `mean_last_k`.
    """
    if summary is None or score not in summary:
        return None
    rows = rows_of(summary)
    keys = [name for name in ("method", "variant", "tuned") if name in summary]
    differences = None if compare is None else {_key(row): row for row in rows_of(compare)}
    metric = next((str(row["metric"]) for row in rows if row["metric"]), "")
    reached = any(row.get("rounds_to_target") is not None for row in rows)
    head = [*keys, "runs", f"{score} {metric.replace('_', ' ')}", "sd", "best"]
    head += ["rounds to target", "MB to target"] if reached else []
    head += ["difference", "95 %", "p (Holm)", "better in"] if differences is not None else []
    variants = list(dict.fromkeys(row.get("variant") for row in rows))
    ranked = []
    for names, group in by(rows, *keys).items():
        key, scores = _key(group[0]), _scores(group, score)
        cells: list[Cell] = [*((str(name or ""), str(name or "")) for name in names), *scores]
        if reached:
            cells += _reached(group, "rounds_to_target", 1, ".0f") + _reached(group, "bytes_to_target", 1e6, ".2f")
        if differences is not None:
            cells += _difference(differences.get(key))
        mean = scores[1][1]
        worse = math.inf if mean == "" else -mean if larger_is_better(metric) else mean
        ranked.append(((variants.index(key[1]), differences is not None and key in differences, worse), cells))
    return {"head": head, "rows": [cells for _, cells in sorted(ranked, key=lambda one: one[0])], "words": len(keys)}


def times(timing: pd.DataFrame | None, names: Sequence[str]) -> dict[str, Any] | None:
    """Where the time went: the last row of every run, summed by method."""
    if timing is None:
        return None
    rows = rows_of(timing)
    last = by([group[-1] for group in by(rows, "method", "variant", "seed").values()], "method")
    lines = []
    for name in names:
        runs = last.get((name,), [])
        busy = [row["lane_efficiency"] for row in rows if row["method"] == name and row["lane_efficiency"]]
        wall, compiling = (sum(row[column] for row in runs) for column in ("wall_seconds", "compile_seconds"))
        rate = statistics.fmean(row["steps_per_second"] for row in runs) if runs else 0.0
        lanes = f"{statistics.fmean(busy):.0%}" if busy else ""
        lines.append((name, str(len(runs)), f"{wall:.1f}", f"{compiling:.1f}", f"{rate:,.0f}", lanes))
    head = ("method", "runs", "seconds", "of them compiling", "local steps per second", "lanes busy")
    return {"head": head, "rows": lines}


def _key(row: Mapping[str, Any]) -> tuple:
    return row["method"], row.get("variant")


def _scores(rows: Sequence[Row], score: str) -> list[Cell]:
    """Runs, mean and standard deviation of their scores, and the mean of their best rounds."""
    values = [row[score] for row in rows if row[score] is not None]
    bad = sum(bool(row["diverged"]) or row.get("status") == "failed" for row in rows)
    best = [row["best"] for row in rows if row["best"] is not None]
    numbers = (
        statistics.fmean(values) if values else None,
        statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None,
        statistics.fmean(best) if best else None,
    )
    cells: list[Cell] = [("", "") if value is None else (f"{value:.4f}", value) for value in numbers]
    return [(f"{len(rows)}, {bad} bad" if bad else str(len(rows)), len(rows)), *cells]


def _reached(rows: Sequence[Row], name: str, unit: float, form: str) -> list[Cell]:
    """The mean over the runs that reached the target, and how many did."""
    known = [row[name] / unit for row in rows if row.get(name) is not None]
    if not known:
        return [("not reached", 1e300)]
    some = "" if len(known) == len(rows) else f" ({len(known)} of {len(rows)})"
    return [(f"{statistics.fmean(known):{form}}{some}", statistics.fmean(known))]


def _difference(row: Row | None) -> list[Cell]:
    """Cells of a method against the baseline; of the baseline itself one word."""
    if row is None:
        return [("baseline", 0), ("", ""), ("", ""), ("", "")]
    return [("", "") if row[name] is None else (form.format(**row), row[name]) for name, form in DIFFERENCES.items()]
