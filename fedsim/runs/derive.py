"""Pages, figures and paper tables of run directories: written when a run ends or stops, and again by `fedsim report`."""

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.disk import files
from fedsim.disk.tables import as_written, read_table
from fedsim.errors import DirectoryError
from fedsim.report import page
from fedsim.report.derived import derived_files
from fedsim.report.figures import FORMATS
from fedsim.report.results import rows_of
from fedsim.runs import directory
from fedsim.runs.comparison import said
from fedsim.runs.result import ORDER
from fedsim.runs.unfinished import (
    axes_of,
    csv_of,
    ended,
    frames_of,
    marked,
    records_so_far,
    runs_of,
    told_apart,
)
from fedsim.study.cost_axes import AXES

CONCLUDED = ("compare", *(axis.table for axis in AXES), "worst", "breakdown")  # of a comparison
TABLES = (*ORDER, *CONCLUDED, "tuning")  # from which everything else is derived
SAID = (*CONCLUDED, "summary", "rounds", "tuning")  # from which the verdict is
NEEDED = {  # a column that every reader of a table relies on
    "rounds": "round", "clients": "client", "partition": "client", "staleness": "age",
    "machines": "begins", "summary": "metric",
    "timing": "round", "compare": "baseline", "bytes": "up_per_client_round", "seconds": "in_time",
    "worst": "attack", "breakdown": "falls", "tuning": "chosen",
}  # fmt: skip
DERIVED = re.compile(
    r"report\.html|figures/[^/]+\.(png|svg|pdf)|tables/[^/]+\.(tex|md)"
)  # names of what follows from them


def tables_of(path: Path) -> dict[str, pd.DataFrame]:
    """The tables of a run directory by name, as far as there are any.

    Raises:
      DirectoryError: for one that no run has written.
    """
    tables = {name: read_table(path, name) for name in TABLES}
    known = {name: table for name, table in tables.items() if table is not None}
    with as_written(path):
        for name, table in known.items():
            table[NEEDED[name]]  # a KeyError, where there is no such column
    return known


def contents(path: Path) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Record and tables by name of a run directory: its files, or what a run that has not ended has committed so far.

    Raises:
      DirectoryError: when it holds no run.
      CheckpointError: for a log or a commit that is damaged.
    """
    record = directory.sound_record(path)
    if ended(record):
        return record, tables_of(path)
    runs = runs_of(path, record)
    with as_written(path):
        return marked(record, runs), frames_of(record, records_so_far(record, runs))


def write(path: Path, derived: Mapping[str, bytes]) -> None:
    """Write derived files into a run directory, each whole or as it was before."""
    for name, content in derived.items():
        files.make_folder((path / name).parent)
        files.write(path / name, content)


def clear(path: Path, record: Mapping[str, Any] | None) -> None:
    """Delete what was derived from an earlier state of a run that goes on; `record`: of that state, None where there is none."""
    names = (
        []
        if record is None
        else [*record.get("files", ()), *record.get("unfinished", {}).get("files", ())]
    )
    for name in filter(DERIVED.fullmatch, names):
        files.remove(path / name)


def rebuild(path: Path) -> list[str]:
    """Derive the files of a run directory again -> their names.

    Of a run that has ended from its tables: its record knows their new hashes, and of a comparison the verdict. Of one that
    was interrupted or killed from its logs, tables included, and all of them carry its mark; going on with it is as if
    nobody had looked.

    Raises:
      DirectoryError: when it holds no run.
      LockedError: when another process is writing it.
      CheckpointError: for a log or a commit that is damaged.
    """
    directory.sound_record(path)
    with directory.claimed(path, force=False, resume=True):
        record = directory.sound_record(path)
        if not ended(record):
            return write_so_far(path, record)
        with as_written(path):
            tables = tables_of(path)
            record = {**record, **_said_again(record, tables)}
            derived = derived_files(tables, record, FORMATS)
        write(path, derived)
        hashes = {**record["files"], **{name: files.sha256(path / name) for name in derived}}
        directory.write_record(path, {**record, "files": dict(sorted(hashes.items()))})
    return sorted(derived)


def _said_again(
    record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]
) -> dict[str, Sequence[str]]:
    """The verdict of a comparison, from its tables; nothing of a run."""
    if record.get("kind") != "compare" or not {"compare", "summary"} <= tables.keys():
        return {}
    frames = {name: tables.get(name) for name in SAID}
    rows = {name: [] if frame is None else rows_of(frame) for name, frame in frames.items()}
    about = record["scenario"], record["baseline"], record["score"], axes_of(record)[1]
    return {"verdict": said(rows, tables.get("partition"), *about).lines}


def write_so_far(
    path: Path, record: Mapping[str, Any], shown: bool = True, drawn: Sequence[str] = FORMATS
) -> list[str]:
    """Write tables, page and pictures of a run that has not ended (its directory is held) -> their names.

    Tables first: they are there whatever the page or a picture comes to.

    Args:
      path: of the run directory.
      record: of the run.
      shown: whether there is a page at all, and pictures.
      drawn: the formats of figures, which take longest.
    """
    runs = runs_of(path, record)
    record = {**marked(record, runs), "status": "interrupted"}
    with as_written(path):
        records = records_so_far(record, runs)
        tables = {name: text.encode() for name, text in csv_of(record, records)}
        frames = told_apart(record, frames_of(record, records))
    _write_marked(path, record, tables, {})
    if not shown:
        return sorted(tables)
    with as_written(path):
        derived = derived_files(frames, record, drawn)
    _write_marked(path, record, derived, tables)
    return sorted([*tables, *derived])


def _write_marked(
    path: Path, record: dict[str, Any], contents: Mapping[str, bytes], earlier: Collection[str]
) -> None:
    """Write files of a run that has not ended, after a record that names them and those that were written earlier."""
    names = sorted([*contents, *earlier])
    directory.write_record(path, {**record, "unfinished": {**record["unfinished"], "files": names}})
    write(path, contents)


def stopped(path: Path, wall_seconds: float, shown: bool) -> None:
    """What a run that was asked to end leaves behind: its record, tables and page; figures are left to `fedsim report`.

    Args:
      path: of its directory, which is held.
      wall_seconds: that it took so far.
      shown: whether there is a page at all.
    """
    try:
        record = {**directory.sound_record(path), "wall_seconds": wall_seconds}
        write_so_far(path, record, shown, drawn=())
    except (
        DirectoryError
    ) as error:  # what was committed is safe, and the run ends as it was asked to
        warnings.warn(str(error), stacklevel=2)


def page_of_runs(paths: Sequence[Path], refresh: int = 0) -> bytes:
    """One page of several runs beside one another, or of a single run or comparison, ended or not.

    Args:
      paths: of run directories.
      refresh: as of `page_of`.

    Raises:
      DirectoryError: when one holds no run; or several of which one is a comparison.
      CheckpointError: for a log or a commit that is damaged.
    """
    read = [contents(path) for path in paths]
    comparisons = [
        path
        for path, (record, _) in zip(paths, read, strict=True)
        if record.get("kind") == "compare"
    ]
    if comparisons and len(paths) > 1:
        raise DirectoryError(
            f"{comparisons[0]}: is a comparison, which has a page of its own; name single runs"
        )
    names = [path.resolve().name for path in paths]
    labels = (
        [""]
        if len(paths) == 1
        else names
        if len(set(names)) == len(names)
        else list(map(str, paths))
    )
    with as_written(*paths):
        sources = [
            page.Source(record, told_apart(record, frames), label)
            for (record, frames), label in zip(read, labels, strict=True)
        ]
        return page.page_of(sources, refresh)
