"""What runs spent until they ended, in a comparison in which some ended early."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedsim.disk.tables import Record
from fedsim.study.pairing import shared_scores
from fedsim.study.statistics import holm, paired
from fedsim.study.summary import variation_of

PREFIX = "stopped_"
ROUNDS = f"{PREFIX}rounds"
SPENT: dict[str, Callable[[Record], Any]] = {
    ROUNDS: lambda row: row["round"],
    f"{PREFIX}bytes": lambda row: _sum(row.get("bytes_up"), row.get("bytes_down")),
    f"{PREFIX}virtual_seconds": lambda row: row.get("virtual_seconds"),
}
TESTS = ("difference", "ci_low", "ci_high")

Run = tuple[str, str, int]  # variation, method, seed


def columns(
    compared: Sequence[Record], summary: Sequence[Record], rounds: Iterable[Record]
) -> list[Record]:
    """Return what rows of `compare.csv` say of the ends of runs; nothing where none ended early.

    Differences to the baseline are paired by seed. Runs that diverged are left out with their seed:
    what they would have taken is not known. Holm's adjustment is over all rows, of each column by
    itself; rows with equal values are one test.
    """
    if all(run.get("stopped") is None for run in summary):
        return [{} for _ in compared]
    last = _last_rows(summary, rounds)
    found: list[Record] = [{} for _ in compared]
    for name, spent in SPENT.items():
        values = {run: spent(row) for run, row in last.items()}
        for row, tested in zip(found, _tested(name, values, compared), strict=True):
            row |= tested
    return found


def _last_rows(summary: Sequence[Record], rounds: Iterable[Record]) -> dict[Run, Record]:
    """The last row of `rounds.csv` of every run that has ended and did not diverge."""
    ended = {_run_of(run) for run in summary if not run.get("diverged")}
    return {_run_of(row): row for row in rounds if _run_of(row) in ended}


def _tested(
    name: str, values: Mapping[Run, float | None], compared: Sequence[Record]
) -> list[Record]:
    """The columns of one quantity: means, and differences to the baseline with their test."""
    by_method: dict[tuple[str, str], dict[int, float]] = {}
    for (variation, method, seed), value in values.items():
        if value is not None:
            by_method.setdefault((variation, method), {})[seed] = float(value)

    found: list[Record] = []
    p_values: list[float | None] = []
    tests = []
    for row in compared:
        own = by_method.get((variation_of(row), row["method"]), {})
        base = by_method.get((variation_of(row), row["baseline"]), {})
        scores, base_scores = shared_scores(own, base)
        line: Record = {name: float(np.mean(scores)) if len(scores) else None}
        p_value = None
        if len(scores) and row["method"] != row["baseline"]:
            difference = paired(scores, base_scores, larger_is_better=False)
            line |= {f"{name}_{test}": getattr(difference, test) for test in TESTS}
            p_value = difference.p_value
        found.append(line)
        p_values.append(p_value)
        tests.append((tuple(scores.tolist()), tuple(base_scores.tolist())))
    for line, p_adjusted in zip(found, holm(p_values, tests), strict=True):
        line[f"{name}_p_adjusted"] = p_adjusted
    return found


def _run_of(row: Record) -> Run:
    return variation_of(row), row["method"], row["seed"]


def _sum(up: float | None, down: float | None) -> float | None:
    return None if up is None or down is None else up + down
