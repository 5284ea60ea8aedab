"""A suite's results: a folder of run directories, and what each of them is about."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsim.errors import DirectoryError
from fedsim.runs import directory
from fedsim.runs.commits import has_commits
from fedsim.runs.filenames import RunFiles, label_of, run_files_of
from fedsim.runs.unfinished import is_comparison
from fedsim.scenario.named_files import without_hashed_paths

# Sections of a scenario that are not part of its task: what is compared, and what changes no score.
WITHOUT_EFFECT = ("checkpoint", "compare", "method")


def task_folders(folder: Path) -> dict[str, list[Path]]:
    """Return the run directories in a folder by the name of their task.

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


def task_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a comparison is about, apart from the methods that are compared.

    Returns:
      `scenario`: the resolved scenario, with rounds, seeds and metric, without its comparison, and
      data files by their hashes; `compare`: version of the suite, budget, search, score, baseline,
      and what varies.
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
    return {"scenario": scenario, "compare": compared}


def runs_in(path: Path, record: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Path]]:
    """Yield the runs of a comparison that have commits: first columns of their rows, and folder.

    Runs of settings that were not chosen are among them.
    """
    run_files: RunFiles = run_files_of(path, record)
    for cell in record["cells"]:
        label = label_of(cell)
        plan = (record.get("planned") or {}).get(label) or record["scenario"]
        for seed in plan["seeds"]:
            folder = run_files.folder(label, seed)
            if has_commits(folder):
                yield {**cell, "seed": seed}, folder
