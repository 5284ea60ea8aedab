"""A suite's results as a leaderboard: a folder of run directories, to which others can add.

`FOLDER/TASK` is what `fedsim suite run` wrote, `FOLDER/TASK+METHOD` was added to it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsim.errors import DirectoryError
from fedsim.runs import directory
from fedsim.runs.commits import commit_files, has_commits, read_commit
from fedsim.runs.filenames import RunFiles, label_of, run_files_of
from fedsim.runs.unfinished import is_comparison
from fedsim.scenario.named_files import without_hashed_paths
from fedsim.study.summary import NOT_FEDERATED

# Sections of a scenario that are not part of its task: what is compared, and what changes no score.
WITHOUT_EFFECT = ("checkpoint", "compare", "method")


def task_folders(folder: Path) -> dict[str, list[Path]]:
    """Return the run directories in a folder by the name of their task, the suite's own first.

    Args:
      folder: what `fedsim suite run --out` wrote.

    Raises:
      DirectoryError: where there is no such folder, or a directory in it is damaged.
    """
    if not folder.is_dir():
        raise DirectoryError(f"{folder}: there is no such folder")
    folders: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if not (path / directory.RECORD).exists():
            continue
        record = directory.sound_record(path)
        if is_task(record):
            folders.setdefault(record["scenario"]["name"], []).append(path)
    return folders


def is_task(record: Mapping[str, Any]) -> bool:
    """Whether a run directory holds a task of a suite, by its record."""
    compare = record["scenario"].get("compare") or {}
    return is_comparison(record) and compare.get("suite") is not None


def task_of(path: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a comparison is about, apart from the methods that are compared.

    Args:
      path: its run directory.
      record: its record.

    Returns:
      `scenario`: the resolved scenario, with rounds, seeds and metric, without its comparison;
      `compare`: version of the suite, budget, search, score, baseline, and what varies; `data`: the
      hash of all samples.

    Raises:
      DirectoryError: where no run has committed anything, so that the samples are not known.
      CheckpointError: for a commit that is damaged.
    """
    resolved = without_hashed_paths(record["scenario"])
    compare = resolved.get("compare") or {}
    scenario = {key: value for key, value in resolved.items() if key not in WITHOUT_EFFECT}
    compared = {
        "suite": compare.get("suite"),
        "budget": compare.get("budget"),
        "vary": compare.get("vary") or None,
        "score": record["score"],
        "baseline": record["baseline"],
    }
    if "search" in compare:
        compared["search"] = compare["search"]
    return {
        "scenario": scenario,
        "compare": compared,
        "data": _data_hash(path, record),
    }


def task_hash(task: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what `task_of` gives: equal for comparisons whose rows can be joined.

    >>> task_hash({"data": "a", "compare": {}}) == task_hash({"compare": {}, "data": "a"})
    True
    """
    return hashlib.sha256(json.dumps(task, sort_keys=True).encode()).hexdigest()


def _data_hash(path: Path, record: Mapping[str, Any]) -> str:
    """The hash of all samples, as the first run that committed something names it.

    Pooled and lonely clients come last: nobody poisons their samples.
    """
    outside = record.get(NOT_FEDERATED, {})
    runs = sorted(runs_in(path, record), key=lambda run: run[0]["method"] in outside)
    for who, folder in runs:
        identity = read_commit(commit_files(folder)[-1]).identity
        data = identity.get("hashes", {}).get("data")
        if isinstance(data, str):
            return data
        raise DirectoryError(f"{folder}: the commit of {who['method']} does not name its samples")
    raise DirectoryError(f"{path}: no run has a commit in checkpoints/")


def runs_in(path: Path, record: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Path]]:
    """Yield the runs of a comparison that have commits: first columns of their rows, and folder.

    Runs of settings that were not chosen are among them.

    Args:
      path: the run directory.
      record: its record.
    """
    run_files: RunFiles = run_files_of(path, record)
    for cell in record["cells"]:
        label = label_of(cell)
        plan = (record.get("planned") or {}).get(label) or record["scenario"]
        for seed in plan["seeds"]:
            folder = run_files.folder(label, seed)
            if has_commits(folder):
                yield {**cell, "seed": seed}, folder
