"""Tables of a run directory for other programs."""

import io
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.disk.tables import as_written, inert, read_table
from fedsim.errors import DirectoryError
from fedsim.report import tables
from fedsim.report.mark import in_latex, in_markdown, mark_of
from fedsim.report.paper_table import paper_table
from fedsim.report.results import rows_of
from fedsim.runs import directory
from fedsim.runs.derive import contents
from fedsim.runs.unfinished import ended, told_apart

NUMBERS = re.compile(
    r"[+-]?\d+(\.\d+)?( to [+-]?\d+(\.\d+)?)?"
)  # and intervals, as a paper's table writes them
Read = Callable[[str], pd.DataFrame | None]  # a table by its name


def exported(
    path: Path, table: str | None, form: str, guard: bool | None = None, spread: str = "sd"
) -> bytes:
    """One table in one form; of a run that has not ended what it has committed so far, with a warning that says so.

    Args:
      path: of the run directory.
      table: name of one of its tables; None: a row per method, as a paper shows it.
      form: `csv`, `parquet`, `latex`, `markdown` or `json`.
      guard: put an apostrophe before text that a spreadsheet would compute; None: in `csv` alone, which spreadsheets open.
      spread: of a paper's table, `sd` or `interval` of the mean.

    Raises:
      DirectoryError: when there is no such run or table, or what the form needs is not installed.
      CheckpointError: for a log or a commit that is damaged.
    """
    record, names, read = _opened(path)
    mark = mark_of(record)
    if mark:
        warnings.warn(f"{path}: {mark}", stacklevel=2)
    if table is None and form == "latex":
        return in_latex(_paper(path, record, read, spread), mark).encode()
    frame = _rows(path, record, read, spread) if table is None else _table(path, table, names, read)
    guarded = form == "csv" if guard is None else guard
    if guarded:
        words = frame.select_dtypes(exclude="number").columns
        frame[words] = frame[words].map(_guarded)
    if form == "latex":
        return in_latex(tables.latex(frame.fillna("")), mark).encode()
    if form == "markdown":
        return in_markdown(tables.markdown(frame.fillna("")), mark).encode()
    if form == "json":
        return (
            f"{frame.to_json(orient='records', double_precision=15, force_ascii=False)}\n".encode()
        )
    if form == "csv":
        return frame.to_csv(index=False, lineterminator="\n").encode()
    file = io.BytesIO()
    try:
        frame.to_parquet(file)
    except ImportError:
        problem = "parquet needs pyarrow: pip install 'fedsim-jax[parquet]', or pip install pyarrow"
        raise DirectoryError(problem) from None
    return file.getvalue()


def _guarded(cell: Any) -> Any:
    """A cell that a spreadsheet shows as it is: text is made inert, and numbers written as text stay numbers."""
    if not isinstance(cell, str) or NUMBERS.fullmatch(cell):
        return cell
    return inert(cell)


def _opened(path: Path) -> tuple[dict[str, Any], list[str], Read]:
    """The record of a run, the names of its tables, and how one of them is read."""
    record = directory.sound_record(path)
    if ended(record):
        return record, sorted(file.stem for file in path.glob("*.csv")), partial(read_table, path)
    record, frames = contents(path)
    return record, sorted(frames), frames.get


def _table(path: Path, name: str, names: list[str], read: Read) -> pd.DataFrame:
    table = read(name) if name in names else None  # a name, no path
    if table is None:
        raise DirectoryError(
            f"{path}: has no table {ascii(name)[:80]}; there are {', '.join(names) or 'none'}"
        )
    return table


def _rows(path: Path, record: dict[str, Any], read: Read, spread: str) -> pd.DataFrame:
    """A row per method and variation."""
    with as_written(path):
        return tables.for_paper(
            _summary(path, read), read("compare"), record.get("score", "final"), spread
        )


def _paper(path: Path, record: dict[str, Any], read: Read, spread: str) -> str:
    """A paper's table."""
    with as_written(path):
        summary, compare = _summary(path, read), read("compare")
        summary = told_apart(record, {"summary": summary})["summary"]
        rows = rows_of(summary), None if compare is None else rows_of(compare)
        return paper_table(*rows, record.get("score", "final"), record["scenario"], spread)


def _summary(path: Path, read: Read) -> pd.DataFrame:
    summary = read("summary")
    if summary is None:
        raise DirectoryError(f"{path}: has no summary.csv")
    if not len(summary):
        raise DirectoryError(
            f"{path}: no round has been evaluated yet; go on with the run (--resume)"
        )
    return summary
