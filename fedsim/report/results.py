"""The results of methods, a row each, for pages, terminals and papers."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedsim.study.cost_axes import timed
from fedsim.study.pairing import without_baseline
from fedsim.study.regression import ERRORS, mean_errors
from fedsim.study.standings import Standing, count_wins
from fedsim.study.statistics import half_width
from fedsim.study.summary import (
    WITHOUT_SCORE,
    as_loss,
    common_score,
    distinct,
    is_federated,
    larger_is_better,
    median_to_target,
    values_of,
)

Errors = Mapping[tuple[str, str], Mapping[str, float]]
"""R², the mean absolute error and perplexity by name, by variation and method"""
NEVER = 1e300  # the number by which a target that was not reached is sorted
Row = dict[str, Any]
Cell = tuple[str, Any]
"""what is shown, and what is sorted by"""
EMPTY: Cell = ("", "")

# title -> the column of `compare.csv` that decides whether there is a number, and its form
DIFFERENCES = {
    "difference": ("difference", "{difference:+z.4f}"),
    "95 %": ("ci_low", "{ci_low:+z.4f} to {ci_high:+z.4f}"),
    "p (Holm)": ("p_adjusted", "{p_adjusted:.3g}"),
}


class Spent(NamedTuple):
    """What runs spent until they reached the target: a column of tables.

    Attributes:
      column: of `summary.csv`.
      unit: in which it is shown.
    """

    column: str
    noun: str
    unit: float
    form: str


ROUNDS = Spent("rounds_to_target", "rounds", 1, ".0f")
MEGABYTES = Spent("bytes_to_target", "MB", 1e6, ".3g")
SECONDS = Spent("virtual_seconds_to_target", "seconds", 1, ".3g")


def spent_to_target(summary: Sequence[Row], scenario: Mapping[str, Any] | None) -> list[Spent]:
    """What tables say that runs spent to reach the target; nothing where no run reached it.

    Virtual seconds are among it where machines or a schedule decide how long rounds take.

    Args:
      scenario: resolved; None: without machines.
    """
    if all(row.get(ROUNDS.column) is None for row in summary):
        return []
    if timed(scenario):
        return [ROUNDS, MEGABYTES, SECONDS]
    return [ROUNDS, MEGABYTES]


def rows_of(table: pd.DataFrame) -> list[Row]:
    """A table's rows; cells that are empty or NaN are None."""
    columns = []
    for name in table:
        cells = table[name].tolist()
        # NaN differs from itself.
        columns.append([None if cell != cell else cell for cell in cells])
    names = [str(name) for name in table]
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def errors_in(rounds: pd.DataFrame | None, metric: str) -> Errors:
    """R² and the mean absolute error of models; empty for classes.

    Args:
      metric: of the scores, which is left out.
    """
    if rounds is None or not any(column in rounds for column in ERRORS):
        return {}
    return mean_errors(rows_of(rounds), metric)


def grouped_by(rows: Sequence[Row], *names: str) -> dict[tuple, list[Row]]:
    """Rows that agree in some columns, in the order in which they appear."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        key = tuple(row.get(name) for name in names)
        groups.setdefault(key, []).append(row)
    return groups


def results(
    summary: Sequence[Row],
    compare: Sequence[Row] | None,
    score: str,
    variants: Sequence[Any] = (),
    by_variation: Mapping[str, Sequence[Standing]] | None = None,
    scenario: Mapping[str, Any] | None = None,
    errors: Errors | None = None,
    spread: str = "sd",
) -> list[dict[str, Cell]]:
    """Cells by column, a row per method and variation; the column `score` is a mean.

    In every variation the baseline comes first, then the best; methods that are not federated are
    last.

    Args:
      variants: in their order; left out: as they appear.
      by_variation: the standings of methods, whose verdicts are a column; left out: without it.
      scenario: resolved; left out: without what virtual seconds show.
    """
    verdicts = _verdicts(by_variation or {})
    errors = errors or {}
    error_names = dict.fromkeys(name for means in errors.values() for name in means)
    baseline = compare[0]["baseline"] if compare else None
    differences = None
    if compare is not None:
        differences = {_key(row): row for row in without_baseline(compare)}
    runs = grouped_by(summary, "method", "variant")
    rising = larger_is_better(metric_of(summary))
    spent = spent_to_target(summary, scenario)
    variants = variants or distinct(summary, "variant")
    columns = []
    for name in ("method", "variant", "tuned"):
        if any(name in row for row in summary):
            columns.append(name)

    ranked = []
    for names, group in grouped_by(summary, *columns).items():
        row: dict[str, Cell] = {}
        for column, name in zip(columns, names, strict=True):
            row[column] = (str(name or ""), str(name or ""))
        row |= _scores(group, score, spread)
        for entry in spent:
            row[f"{entry.noun} to target"] = reached(group, entry)

        method, variant = _key(group[0])
        means = errors.get((str(variant or ""), str(method)), {})
        for name in error_names:
            row[name] = (f"{means[name]:.4g}", means[name]) if name in means else EMPTY
        difference = None
        if differences is not None:
            difference = differences.get((method, variant))
            row |= _difference(difference, method == baseline)
            row["better in"] = _wins(difference, group, runs, score, rising)
            if verdicts:
                verdict = verdicts[method, variant or ""]
                row["verdict"] = (verdict, verdict)

        rank = (
            variants.index(variant),
            method != baseline,
            not is_federated(group[0]),
            _loss(row["score"], rising),
        )
        ranked.append((rank, row))
    ranked.sort(key=lambda pair: pair[0])
    return [row for _, row in ranked]


def _verdicts(by_variation: Mapping[str, Sequence[Standing]]) -> dict[tuple[str, str], str]:
    """Verdicts by method and variation; none at all where all of them are empty."""
    verdicts = {}
    for variant, standings in by_variation.items():
        for standing in standings:
            verdicts[standing.method, variant] = standing.verdict
    if not any(verdicts.values()):
        return {}
    return verdicts


def _loss(score: Cell, rising: bool) -> float:
    """A mean score as a number that is smaller for better scores; infinite where there is none."""
    _, mean = score
    if mean == "":
        return math.inf
    return as_loss(mean, rising)


def metric_of(summary: Sequence[Row]) -> str:
    """The column of `rounds.csv` that the scores come from; empty where no run has a score."""
    for row in summary:
        if row.get("metric"):
            return str(row["metric"])
    return ""


def _key(row: Mapping[str, Any]) -> tuple[str, Any]:
    return row["method"], row.get("variant")


def _scores(rows: Sequence[Row], score: str, spread: str) -> dict[str, Cell]:
    """Runs, mean and spread of their scores, and the mean of their best rounds.

    Scores that are infinite count: the mean is infinite then.
    """
    _, mean, half = measured(rows, score, spread)
    best = values_of(rows, "best")
    bad = 0
    for row in rows:
        if row.get("diverged") or row.get("status") in WITHOUT_SCORE:
            bad += 1
    runs = str(len(rows))
    if bad:
        runs += f", {bad} bad"
    return {
        "runs": (runs, len(rows)),
        "score": _number(mean),
        "sd": _number(half),
        "best": _number(statistics.fmean(best) if best else None),
    }


def measured(
    rows: Sequence[Row], score: str, spread: str
) -> tuple[list[float], float | None, float | None]:
    """The scores of runs, their mean, and its spread; None without a score, or for one alone."""
    values = values_of(rows, common_score(score, rows))
    mean = statistics.fmean(values) if values else None
    half = None
    if len(values) > 1 and all(map(math.isfinite, values)):
        half = statistics.stdev(values) if spread == "sd" else half_width(values)
    return values, mean, half


def _number(value: float | None) -> Cell:
    return EMPTY if value is None else (score_text(value), value)


def score_text(value: float | None) -> str:
    """A score in words; empty where there is none."""
    return "" if value is None else f"{value:z.4f}"


def amount(count: float) -> str:
    """Bytes in the largest unit of which there is one.

    >>> amount(14_812_345_678), amount(220_000), amount(12)
    ('14.8 GB', '220 kB', '12 bytes')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g} bytes"


def reached(rows: Sequence[Row], spent: Spent) -> Cell:
    """The median of what runs spent to the target, and how many reached it.

    A run that did not reach the target counts as infinite.
    """
    median, arrived = median_to_target(rows, spent.column)
    if not arrived:
        return "not reached", NEVER
    count = ""
    if arrived < len(rows):
        count = f" ({arrived} of {len(rows)})"
    if math.isinf(median):
        return f"∞{count}", NEVER
    number = median / spent.unit
    return f"{number:{spent.form}}{count}", number


def _wins(
    difference: Row | None,
    group: Sequence[Row],
    runs: Mapping[tuple, list[Row]],
    score: str,
    rising: bool,
) -> Cell:
    """Under how many of the shared seeds a method is better than the baseline, and how many tie.

    Args:
      difference: the method's row of `compare.csv`; None for the baseline.
    """
    if difference is None:
        return EMPTY
    base = runs.get((difference["baseline"], difference.get("variant")), [])
    won, tied = count_wins(group, base, score, rising)
    text = ""
    if difference["seeds"]:
        text = f"{won} of {difference['seeds']}"
        if tied:
            text += f", {tied} tied"
    return text, difference["probability_of_improvement"]


def _difference(row: Row | None, is_baseline: bool) -> dict[str, Cell]:
    """The cells of a method against the baseline.

    Args:
      row: of `compare.csv`; None where there is none.
    """
    cells: dict[str, Cell] = dict.fromkeys(DIFFERENCES, EMPTY)
    if is_baseline:
        return {**cells, "difference": ("baseline", 0)}
    if row is None:
        return cells
    for title, (column, form) in DIFFERENCES.items():
        if row[column] is not None:
            cells[title] = (form.format(**row), row[column])
    return cells
