"""Adding a comparison of somebody's method to the results of a suite."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.disk import files
from fedsim.disk.tables import read_table, reporting_table_errors
from fedsim.errors import CheckpointError, DirectoryError, Problem, ScenarioError, did_you_mean
from fedsim.report.results import rows_of
from fedsim.runs import directory
from fedsim.runs.differences import differences
from fedsim.runs.filenames import names_of
from fedsim.runs.lock import held
from fedsim.runs.unfinished import is_complete
from fedsim.runs.verify import verify
from fedsim.study.pairing import same_runs
from fedsim.study.summary import Record, grouped, variation_of
from fedsim.tools.suite.board import is_task, task_folders, task_hash, task_of

INCOMING = ".adding"  # a folder of copies that are not complete; it has no run.json of its own


class Added(NamedTuple):
    """A comparison that was added.

    Attributes:
      path: where it is now.
      task: the hash of its task.
    """

    path: Path
    task: str


def add(folder: Path, runs: Sequence[Path]) -> list[Added]:
    """Copy comparisons into a folder of results.

    All of them are checked before the first is copied. A copy is complete or absent, also if the
    process is killed; what is there already does not change.

    Args:
      folder: what `fedsim suite run --out` wrote.
      runs: run directories of comparisons, each of a task that is in the folder.

    Raises:
      ScenarioError: for a comparison of another task, with the field that differs, and for methods
        that are there already.
      DirectoryError: for a folder without tasks, a directory that cannot be read, and a full disk.
      CheckpointError: for a comparison that is not what its record says.
      LockedError: when another process adds something.
    """
    if not task_folders(folder):
        raise DirectoryError(f"{folder}: no task of a suite; fedsim suite run writes them")
    with held(folder):
        tasks = task_folders(folder)
        files.remove(folder / INCOMING)  # of a process that was killed

        added: list[Added] = []
        for run in runs:
            record = _checked(run)
            name = record["scenario"]["name"]
            if name not in tasks:
                near = did_you_mean(name, list(tasks))
                raise _refusal(run, f"{folder} has no task '{name}'{near}")
            methods = _new_methods(run, record, tasks[name])
            taken = [each.path for each in added]
            target = _free_name(tasks[name][0], methods[0], taken)
            added.append(Added(target, task_hash(task_of(run, record))))
            tasks[name].append(run)
        for run, (target, _) in zip(runs, added, strict=True):
            _copy(run, target)
    return added


def _checked(run: Path) -> dict[str, Any]:
    """The record of a comparison that has ended, and is what its record says."""
    record = directory.sound_record(run)
    if not is_task(record):
        raise _refusal(run, "is no comparison of a task (a scenario with compare.suite)")
    if not is_complete(record):
        raise _refusal(run, "has not ended; --resume goes on with it")
    verification = verify(run)
    for check in verification.checks:
        if not check.ok:
            raise CheckpointError(f"{run}: {check.name}: {' '.join(check.detail.split())}")
    return record


def _new_methods(run: Path, record: Mapping[str, Any], folders: Sequence[Path]) -> list[str]:
    """The methods of a comparison that are not in the results of its task yet.

    Args:
      run: the comparison.
      record: its record.
      folders: the run directories of its task, the suite's own first.

    Raises:
      ScenarioError: where it is about another task, has a method that is there, or has none beside
        the baseline; and where the baseline has other scores there.
    """
    own = folders[0]
    own_record = directory.sound_record(own)
    _demand_same_task(own, own_record, run, record)

    methods = _methods(record)
    baseline = record["baseline"]
    for folder in folders:
        known = _methods(directory.sound_record(folder))
        again = [method for method in methods if method in known and method != baseline]
        if again:
            text = f"{again[0]} is there already, in {folder}; give one of them another label"
            raise _refusal(run, text)
    _demand_same_scores(own, run, baseline, record["score"])
    added = [method for method in methods if method != baseline]
    if not added:
        raise _refusal(run, f"has no method besides the baseline {baseline}")
    return added


def _demand_same_task(
    own: Path, own_record: Mapping[str, Any], run: Path, record: Mapping[str, Any]
) -> None:
    """Refuse a comparison whose rows cannot join those of another one."""
    fields = differences(task_of(own, own_record), task_of(run, record))
    if not fields:
        return
    field, expected, actual = fields[0]
    text = f"is another task: {field} is {actual}, and {expected} in {own}"
    if len(fields) > 1:
        text += f" (and {len(fields) - 1} more)"
    raise _refusal(run, text)


def _demand_same_scores(own: Path, run: Path, baseline: str, score: str) -> None:
    """Refuse a comparison whose baseline has other scores, as another machine computes them."""
    expected = _scores(own, baseline, score)
    if _scores(run, baseline, score) != expected:
        text = f"{baseline} has other scores there than in {own}, so that pairs would mix machines"
        raise _refusal(run, f"{text} or versions; run it where the suite ran")


def _scores(path: Path, method: str, score: str) -> dict[str, Any]:
    """The scores of a method by variation, as values that are equal for equal runs."""
    table = read_table(path, "summary")
    if table is None:
        raise DirectoryError(f"{path}: has no summary.csv")
    with reporting_table_errors(path):
        rows: list[Record] = [row for row in rows_of(table) if row["method"] == method]
        by_variation = grouped(rows, key=variation_of)
        return {variation: same_runs(runs, score) for variation, runs in by_variation.items()}


def _methods(record: Mapping[str, Any]) -> list[str]:
    """The methods of a comparison."""
    return list(dict.fromkeys(cell["method"] for cell in record["cells"]))


def _free_name(own: Path, method: str, taken: Sequence[Path]) -> Path:
    """The folder of an addition: TASK+METHOD, with a number where that is taken."""
    name = f"{own.name}+{names_of([method])[method]}"
    target = own.with_name(name)
    number = 2
    while target.exists() or target in taken:
        target = own.with_name(f"{name}-{number}")
        number += 1
    return target


def _copy(run: Path, target: Path) -> None:
    """Copy the files of a comparison that its record names, under a name that appears at the end.

    Raises:
      CheckpointError: for a file that changes meanwhile.
    """
    record = directory.sound_record(run)
    incoming = target.parent / INCOMING
    copy = incoming / target.name
    files.make_folder(copy)
    for name, sha256 in record["files"].items():
        files.make_folder((copy / name).parent)
        with files.reporting_os_errors(copy / name):
            shutil.copyfile(run / name, copy / name, follow_symlinks=False)
            _sync(copy / name)
        if files.sha256(copy / name) != sha256:
            raise CheckpointError(f"{run / name}: changed while it was copied")
    directory.write_record(copy, record)
    with files.reporting_os_errors(target):
        os.rename(copy, target)
        files.sync_folder(target.parent)
    files.remove(incoming)


def _sync(path: Path) -> None:
    """Wait until a file is on the disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _refusal(path: Path, text: str) -> ScenarioError:
    return ScenarioError([Problem("", text)], str(path))
