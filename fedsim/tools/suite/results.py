"""The results of tasks as `fedsim suite run` left them, a folder for each; of one suite or several.

A run that failed, or in which no round was aggregated, counts like one that diverged: its score is
the worst that there is. So a method gains nothing by not finishing. Clients that train alone have
no shared model, and a score only under a metric about own models.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.disk.tables import reporting_table_errors
from fedsim.errors import DirectoryError
from fedsim.report.results import rows_of
from fedsim.runs.derive import contents
from fedsim.runs.differences import differences
from fedsim.runs.directory import RECORD
from fedsim.runs.unfinished import is_complete
from fedsim.study.edges import Ranges, edge_lines, ranges_in
from fedsim.study.pairing import seed_scores
from fedsim.study.summary import (
    NOT_FEDERATED,
    WITHOUT_SCORE,
    Record,
    common_score,
    distinct,
    grouped,
    metric_of,
    variation_of,
)
from fedsim.tools.suite.board import task_of
from fedsim.types.client import ALONE

TABLES = ("summary", "compare", "rounds", "timing", "tuning")


class Task(NamedTuple):
    """The results of a task; methods of several folders together.

    Attributes:
      name: of the task, with its variation if something varies.
      metric: the metric that is scored; empty if no run has a score.
      tables: the rows of `summary`, `compare`, `rounds`, `timing` and `tuning`; in `summary`, runs
        without a score have `diverged` set.
      lost: how many runs of a method failed, diverged or have not run, by method.
      cautions: sentences about settings at an end of their ranges.
      about: what is compared, as `task_of` returns it.
    """

    name: str
    metric: str
    score: str
    baseline: str
    tables: dict[str, list[Record]]
    lost: dict[str, int]
    cautions: Sequence[str] = ()
    about: Mapping[str, Any] = {}

    @property
    def methods(self) -> list[str]:
        """All methods, in the order in which they were run."""
        return distinct(self.tables["summary"], "method")

    def scores(self, method: str) -> dict[int, float]:
        """The scores of a method by seed; empty if it has none."""
        runs = [row for row in self.tables["summary"] if row["method"] == method]
        if common_score(self.score, runs) != self.score:
            return {}  # on other samples than those of the other methods
        return seed_scores(runs, self.score)

    @property
    def outside(self) -> dict[str, str]:
        """Why methods are not federated, as in the column `not_federated`, by method."""
        runs = self.tables["summary"]
        return {row["method"]: row[NOT_FEDERATED] for row in runs if row.get(NOT_FEDERATED)}


def read_tasks(folders: Sequence[Path]) -> tuple[list[Task], list[str]]:
    """Read the comparisons in some folders -> tasks by name, and a line for each that is left out.

    Methods of tasks of one name join one task. A method that two folders have counts once if its
    runs have the same scores.

    Raises:
      DirectoryError: if no folder has a task, a comparison that has not finished or is damaged, or
        for tasks of one name that are not the same, or differ in the scores of a method.
    """
    tasks: dict[str, Task] = {}
    left_out = []
    for folder in folders:
        for path in _run_directories(folder):
            record, frames = contents(path, TABLES)
            reason = _reason_to_leave_out(record)
            if reason:
                left_out.append(f"{path}: {reason}")
                continue
            with reporting_table_errors(path):
                for task in _tasks_in(record, frames):
                    tasks[task.name] = _joined(tasks.get(task.name), task, path)
    if not tasks:
        reasons = f" ({left_out[0]})" if left_out else ""
        listed = ", ".join(map(str, folders))
        raise DirectoryError(f"{listed}: no task of a suite; fedsim suite run writes them{reasons}")
    return [tasks[name] for name in sorted(tasks)], left_out


def _run_directories(folder: Path) -> list[Path]:
    """The run directories in a folder, or the folder if it is one."""
    if (folder / RECORD).exists():
        return [folder]
    if not folder.is_dir():
        raise DirectoryError(f"{folder}: there is no such folder")
    return sorted(path for path in folder.iterdir() if (path / RECORD).exists())


def _reason_to_leave_out(record: Mapping[str, Any]) -> str:
    """Why the report leaves a run directory out; empty if it is a task that has finished."""
    compare = record["scenario"].get("compare") or {}
    if compare.get("suite") is None or "baseline" not in record:
        return "is no task of a suite (compare.suite)"
    if not is_complete(record):
        return "has not finished; fedsim suite run --resume goes on with it"
    return ""


def _tasks_in(record: Mapping[str, Any], frames: Mapping[str, Any]) -> list[Task]:
    """The task of a comparison; one for every variation if something varies."""
    tables = {name: rows_of(frames[name]) if name in frames else [] for name in TABLES}
    by_variation = {}
    for name, rows in tables.items():
        by_variation[name] = grouped(rows, key=variation_of)

    ranges = ranges_in(record["scenario"])
    about = task_of(record)
    tasks = []
    for variation, runs in by_variation["summary"].items():
        title = record["scenario"]["name"]
        if variation:
            title = f"{title}, {variation}"
        of_variation = {name: by_variation[name].get(variation, []) for name in TABLES}
        metric = metric_of(runs)
        of_variation["summary"] = [_counted(row, metric) for row in runs]
        tasks.append(
            Task(
                name=title,
                metric=metric,
                score=record["score"],
                baseline=record["baseline"],
                tables=of_variation,
                lost=_lost(of_variation["summary"]),
                cautions=_cautions(of_variation["tuning"], ranges),
                about=about,
            )
        )
    return tasks


def _cautions(tuning: Sequence[Record], ranges: Ranges) -> list[str]:
    """The sentences about settings at an end of their ranges; the task names the variation."""
    rows = [{**row, "variant": ""} for row in tuning]
    return [str(line) for line in edge_lines(rows, [], ranges)]


def _counted(row: Record, metric: str) -> Record:
    """A row of `summary.csv` in which a run that failed or has not run is one that diverged."""
    if row.get("status") not in WITHOUT_SCORE or row.get(NOT_FEDERATED) == ALONE:
        return row
    return {**row, "status": None, "metric": metric, "diverged": 1}


def _lost(runs: Sequence[Record]) -> dict[str, int]:
    """How many runs of a method have the worst score that there is; not those without any."""
    return dict(Counter(row["method"] for row in runs if row.get("diverged")))


def _joined(task: Task | None, other: Task, path: Path) -> Task:
    """A task with the methods of another folder.

    Args:
      task: the task so far; None: the other one is the first of its name.
      path: of that folder.
    """
    if task is None:
        return other
    fields = differences(task.about, other.about)
    if fields:
        field, one, two = fields[0]
        reason = f"'{task.name}' has {field} {two} here, and {one} in another folder"
        raise DirectoryError(f"{path}: {reason}; report them on their own")
    for method in set(task.methods) & set(other.methods):
        if task.scores(method) != other.scores(method):
            reason = f"'{task.name}' has other scores of {method} in another folder"
            raise DirectoryError(f"{path}: {reason}; give one of the two methods another label")

    added = [method for method in other.methods if method not in task.methods]
    tables = {}
    for name, rows in task.tables.items():
        tables[name] = rows + [row for row in other.tables[name] if row["method"] in added]
    lost = {method: number for method, number in other.lost.items() if method in added}
    cautions = [*task.cautions, *(line for line in other.cautions if line not in task.cautions)]
    return task._replace(tables=tables, lost={**task.lost, **lost}, cautions=cautions)
