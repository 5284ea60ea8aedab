"""What is derived from the tables of run directories: pages, figures, and tables for papers.

It is written when a run ends or is interrupted, and again by `fedsim report`.
"""

import contextlib
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.disk import files
from fedsim.disk.tables import TABLES_OF_FIELDS, read_table, reporting_table_errors
from fedsim.errors import DirectoryError, Interrupted, LostError
from fedsim.report import page
from fedsim.report.derived import derived_files
from fedsim.report.figures import FORMATS
from fedsim.report.results import rows_of
from fedsim.runs import directory
from fedsim.runs.comparison import verdict_of
from fedsim.runs.directory import RunDirectory
from fedsim.runs.filenames import RunFiles
from fedsim.runs.result import TABLE_COLUMNS, Tables
from fedsim.runs.unfinished import (
    axes_of,
    by_setting,
    csv_of,
    frames_of,
    is_comparison,
    is_complete,
    marked,
    records_so_far,
    runs_of,
)
from fedsim.study.cost_axes import AXES
from fedsim.study.verdict import Verdict

# Tables of comparisons, those from which the verdict follows, and those from which all else does.
CONCLUSIONS = ("compare", *(axis.table for axis in AXES), "worst", "breakdown")
VERDICT_TABLES = (*CONCLUSIONS, "summary", "rounds", "tuning")
TABLES = (*TABLE_COLUMNS, *CONCLUSIONS, "tuning")

# A column that every reader of a table relies on.
NEEDED_COLUMN = {
    "rounds": "round",
    "clients": "client",
    "partition": "client",
    "summary": "metric",
    "timing": "round",
    "compare": "baseline",
    "bytes": "up_per_client_round",
    "seconds": "in_time",
    "worst": "attack",
    "breakdown": "falls",
    "tuning": "chosen",
    **{name: columns[-1] for name, columns in TABLES_OF_FIELDS.items()},
}

# The names of derived files.
DERIVED = re.compile(r"report\.html|figures/[^/]+\.(png|svg|pdf)|tables/[^/]+\.(tex|md)")


# --------------------------------------------------------------------------- reading the tables


def tables_of(path: Path, names: Sequence[str] = TABLES) -> dict[str, pd.DataFrame]:
    """The tables of a run directory by name, as far as there are any."""
    tables = {}
    for name in names:
        table = read_table(path, name)
        if table is not None:
            tables[name] = table
    with reporting_table_errors(path):
        for name, table in tables.items():
            if NEEDED_COLUMN[name] not in table:
                raise KeyError(NEEDED_COLUMN[name])
    return tables


def contents(
    path: Path, names: Sequence[str] = TABLES
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Record and tables of a run directory: its files, or what an unfinished run has committed.

    Args:
      names: of the tables that are read of a finished run.
    """
    record = directory.sound_record(path)
    if is_complete(record):
        return record, tables_of(path, names)
    runs = runs_of(path, record)
    with reporting_table_errors(path):
        return marked(record, runs), frames_of(record, records_so_far(record, runs))


# ----------------------------------------------------------------------- writing derived files


def write_files(path: Path, contents: Mapping[str, bytes]) -> None:
    """Write files into a run directory, each replaced as a whole or not at all."""
    for name, content in contents.items():
        files.make_folder((path / name).parent)
        files.write(path / name, content)


def complete(
    run_directory: RunDirectory,
    run_files: RunFiles,
    result: Tables,
    record: dict[str, Any],
    started: float,
    shown: bool,
) -> None:
    """Write tables and models of runs that have ended, what follows from them, and last the record.

    Args:
      started: when this process started the runs, by `time.monotonic`.
      shown: whether page, figures and tables for papers are written.
    """
    result.write(run_files)
    reasons = {str(name): reason for name, reason in result.reasons.items()}
    record = {**record, "status": result.status, "reasons": reasons}
    if shown:
        write_files(run_directory.path, derived_files(result.frames(), record))
    run_directory.seal(record, started)


def delete_derived(path: Path, record: Mapping[str, Any] | None) -> None:
    """Delete what was derived from an earlier state of a run that resumes."""
    if record is None:
        return
    unfinished = record.get("unfinished", {})
    for name in (*record.get("files", ()), *unfinished.get("files", ())):
        if DERIVED.fullmatch(name):
            files.remove(path / name)


def rebuild(path: Path) -> list[str]:
    """Derive the files of a run directory again -> their names.

    For a finished run they follow from its tables, and its record gets their new hashes, and for a
    comparison the verdict. For a run that was interrupted or killed they follow from its logs,
    tables included, and all of them carry its mark; resuming it is not affected.
    """
    directory.sound_record(path)
    with directory.open_run_directory(path, force=False, resume=True):
        record = directory.sound_record(path)
        if not is_complete(record):
            return write_so_far(path, record)
        with reporting_table_errors(path):
            tables = tables_of(path)
            verdict = verdict_again(record, tables)
            if verdict is not None:
                record["verdict"] = verdict.lines
            derived = derived_files(tables, record, FORMATS)
        write_files(path, derived)
        hashes = {**record["files"], **{name: files.sha256(path / name) for name in derived}}
        directory.write_record(path, {**record, "files": dict(sorted(hashes.items()))})
    return sorted(derived)


def verdict_again(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Verdict | None:
    """The verdict of a comparison, from its tables; None for a run."""
    if not is_comparison(record) or not {"compare", "summary"} <= tables.keys():
        return None
    rows = {}
    for name in VERDICT_TABLES:
        rows[name] = rows_of(tables[name]) if name in tables else []
    _, tuned = axes_of(record)
    return verdict_of(
        records=rows,
        partition=tables.get("partition"),
        scenario=record["scenario"],
        baseline=record["baseline"],
        score=record["score"],
        tuned=tuned,
    )


def write_so_far(
    path: Path, record: Mapping[str, Any], shown: bool = True, drawn: Sequence[str] = FORMATS
) -> list[str]:
    """Write tables, page and figures of an unfinished run -> their names.

    The tables come first: they are there even if the page or a figure fails.

    Args:
      drawn: the formats of figures, which take longest.
    """
    runs = runs_of(path, record)
    record = {**marked(record, runs), "status": "interrupted"}
    with reporting_table_errors(path):
        records = records_so_far(record, runs)
        tables = {name: text.encode() for name, text in csv_of(record, records)}
        frames = by_setting(record, frames_of(record, records))
    _write_with_record(path, record, tables)
    if not shown:
        return sorted(tables)
    with reporting_table_errors(path):
        derived = derived_files(frames, record, drawn)
    _write_with_record(path, record, derived, earlier=tables)
    return sorted([*tables, *derived])


def _write_with_record(
    path: Path, record: dict[str, Any], contents: Mapping[str, bytes], earlier: Collection[str] = ()
) -> None:
    """Write files of an unfinished run, after a record that names them."""
    names = sorted([*contents, *earlier])
    directory.write_record(path, {**record, "unfinished": {**record["unfinished"], "files": names}})
    write_files(path, contents)


@contextlib.contextmanager
def tables_if_interrupted(
    run_directory: RunDirectory | None, started: float, shown: bool
) -> Iterator[None]:
    """Write record, tables and page of a run that is interrupted; figures need `fedsim report`.

    Args:
      started: when this process started the run, by `time.monotonic`.
    """
    try:
        yield
    except (Interrupted, LostError):
        if run_directory is not None:
            _write_interrupted(run_directory, started, shown)
        raise


def _write_interrupted(run_directory: RunDirectory, started: float, shown: bool) -> None:
    """Write what an interrupted run has committed, or warn that it cannot be written."""
    path = run_directory.path
    try:
        record = directory.sound_record(path)
        record["wall_seconds"] = run_directory.elapsed(started)
        write_so_far(path, record, shown, drawn=())
    except DirectoryError as error:
        # What was committed is safe, and the run ends as it was asked to.
        warnings.warn(str(error), stacklevel=2)


# ------------------------------------------------------------------------- a page of several runs


def page_of_runs(paths: Sequence[Path], refresh: int = 0) -> bytes:
    """The page of a run or a comparison, or of several runs side by side, whether ended or not.

    Args:
      refresh: seconds after which a browser loads the page again, as `page_of` takes them.
    """
    loaded = [contents(path) for path in paths]
    if len(paths) > 1:
        for path, (record, _) in zip(paths, loaded, strict=True):
            if is_comparison(record):
                reason = "is a comparison, which has its own page; give single runs"
                raise DirectoryError(f"{path}: {reason}")
    with reporting_table_errors(*paths):
        sources = []
        for label, (record, frames) in zip(_labels(paths), loaded, strict=True):
            sources.append(page.Source(record, by_setting(record, frames), label))
        return page.page_of(sources, refresh)


def _labels(paths: Sequence[Path]) -> list[str]:
    """Distinct labels of run directories on a page: none for a single one, else names or paths."""
    if len(paths) == 1:
        return [""]
    names = [path.resolve().name for path in paths]
    if len(set(names)) == len(names):
        return names
    return list(map(str, paths))
