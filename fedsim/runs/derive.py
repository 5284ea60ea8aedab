"""Pages, figures and paper tables of run directories: written when a run ends, and again by `fedsim report`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.disk import files
from fedsim.disk.tables import as_written, read_table
from fedsim.errors import DirectoryError
from fedsim.report import page
from fedsim.report.derived import derived_files
from fedsim.runs import directory
from fedsim.runs.result import ORDER

TABLES = (*ORDER, "compare")  # from which everything else is derived


def tables_of(path: Path) -> dict[str, pd.DataFrame]:
    """The tables of a run directory by name, as far as there are any."""
    tables = {name: read_table(path, name) for name in TABLES}
    return {name: table for name, table in tables.items() if table is not None}


def write(path: Path, derived: Mapping[str, bytes]) -> None:
    """Write derived files into a run directory, each whole or as it was before."""
    for name, content in derived.items():
        files.make_folder((path / name).parent)
        files.write(path / name, content)


def rebuild(path: Path) -> list[str]:
    """Derive the files of a run directory again from its tables -> their names; its record knows their new hashes.

    Raises:
      DirectoryError: when it holds no run, or one that has not ended.
      LockedError: when another process is writing it.
    """
    record = _ended(path)
    with directory.claimed(path, force=False, resume=True):
        with as_written(path):
            derived = derived_files(tables_of(path), record)
        write(path, derived)
        hashes = {**record["files"], **{name: files.sha256(path / name) for name in derived}}
        directory.write_record(path, {**record, "files": dict(sorted(hashes.items()))})
    return sorted(derived)


def page_of_runs(paths: Sequence[Path]) -> bytes:
    """One page of several runs beside one another, or of a single run or comparison.

    Raises:
      DirectoryError: when one holds no run, or one that has not ended; or several of which one is a comparison.
    """
    records = [_ended(path) for path in paths]
    comparisons = [path for path, record in zip(paths, records, strict=True) if record.get("kind") == "compare"]
    if comparisons and len(paths) > 1:
        raise DirectoryError(f"{comparisons[0]}: is a comparison, which has a page of its own; name single runs")
    names = [path.resolve().name for path in paths]
    labels = [""] if len(paths) == 1 else names if len(set(names)) == len(names) else list(map(str, paths))
    with as_written(*paths):
        sources = zip(records, map(tables_of, paths), labels, strict=True)
        return page.page_of([page.Source(*source) for source in sources])


def _ended(path: Path) -> dict[str, Any]:
    """The record of a run that has ended."""
    record = directory.sound_record(path)
    if "files" not in record:
        raise DirectoryError(f"{path}: the run has not ended; go on with --resume")
    return record
