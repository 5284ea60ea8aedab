"""What methods of a suite cost: tables of budgets, and of gradient steps and bytes."""

import math
from collections.abc import Sequence

from fedsim.study.statistics import scored
from fedsim.study.summary import Record, grouped, larger_is_better, values_of, worst
from fedsim.tools.suite.analysis import Analysis
from fedsim.tools.suite.statistics import expected_best


def budget_rows(analysis: Analysis) -> list[Record]:
    """Return a row per task, method and number of trials: the expected best validation score.

    A search with rungs has none: the scores of its settings are of different rounds.
    """
    rows = []
    for task in analysis.tasks:
        by_method = grouped(task.tables["tuning"], key=lambda row: row["method"])
        for method in analysis.methods:
            trials = by_method.get(method, [])
            if not trials or not task.scores(method):  # of clients alone no setting has a score
                continue
            if any(trial.get("rung") for trial in trials):
                continue
            means = [trial["validation_mean"] for trial in trials]
            values = scored(means, [False] * len(means), worst(task.metric)).tolist()
            expected = expected_best(values, larger_is_better(task.metric))
            for number, value in enumerate(expected, start=1):
                rows.append(
                    {
                        "task": task.name,
                        "method": method,
                        "metric": trials[0]["metric"],
                        "trials": number,
                        "expected": value,
                    }
                )
    return rows


def cost_rows(analysis: Analysis) -> list[Record]:
    """Return a row per task and method: what tuning and a run of the chosen setting cost.

    Costs of a run are means over the seeds; those that were not counted are empty.
    """
    rows = []
    for task in analysis.tasks:
        compared = {row["method"]: row for row in task.tables["compare"]}
        ends = _last_rows(task.tables["rounds"])
        steps = _sums(task.tables["timing"], "local_steps")
        for method in analysis.methods:
            if method not in task.methods:
                continue
            row: Record = {"task": task.name, "method": method}
            for column in ("trials", "tuning_steps"):
                row[column] = _whole(compared.get(method, {}).get(column))
            row["local_steps"] = _mean(steps.get(method, []))
            for column in ("bytes_up", "bytes_down", "virtual_seconds"):
                row[column] = _mean(values_of(ends.get(method, []), column))
            rows.append(row)
    return rows


def _last_rows(rows: Sequence[Record]) -> dict[str, list[Record]]:
    """The last row of every run, by method."""
    runs = grouped(rows, key=lambda row: (row["method"], row["seed"]))
    last: dict[str, list[Record]] = {}
    for (method, _), of_run in runs.items():
        last.setdefault(method, []).append(of_run[-1])
    return last


def _sums(rows: Sequence[Record], column: str) -> dict[str, list[float]]:
    """The sums of a column over runs, by method; runs in which it was not counted are left out."""
    sums: dict[str, list[float]] = {}
    for (method, _), of_run in grouped(rows, key=lambda row: (row["method"], row["seed"])).items():
        counts = values_of(of_run, column)
        if len(counts) == len(of_run):
            sums.setdefault(method, []).append(math.fsum(counts))
    return sums


def _whole(number: float | None) -> int | None:
    """A count; the numbers of a column with empty cells are read as floats."""
    return None if number is None else int(number)


def _mean(values: Sequence[float]) -> float | None:
    """The mean of values; None if there are none."""
    return math.fsum(values) / len(values) if values else None
