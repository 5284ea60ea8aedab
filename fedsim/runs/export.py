"""Tables of a run directory for other programs."""

import io
import warnings
from functools import partial
from pathlib import Path

import pandas as pd

from fedsim.disk.tables import as_written, inert, read_table
from fedsim.errors import DirectoryError
from fedsim.report import tables
from fedsim.report.mark import in_latex, in_markdown, mark_of
from fedsim.runs import directory
from fedsim.runs.derive import contents
from fedsim.runs.unfinished import ended


def exported(path: Path, table: str | None, form: str, excel_safe: bool = False) -> bytes:
    """One table in one form; of a run that has not ended what it has committed so far, with a warning that says so.

    Args:
      path: of the run directory.
      table: name of one of its tables; None: a row per method, as a paper shows it.
      form: `csv`, `parquet`, `latex`, `markdown` or `json`.
      excel_safe: put an apostrophe before text that a spreadsheet would compute.

    Raises:
      DirectoryError: when there is no such run or table, or what the form needs is not installed.
      CheckpointError: for a log or a commit that is damaged.
    """
    frame, mark = _table(path, table)
    if excel_safe:
        words = frame.select_dtypes(exclude="number").columns
        frame[words] = frame[words].map(lambda cell: inert(cell) if isinstance(cell, str) else cell)
    if mark:
        warnings.warn(f"{path}: {mark}", stacklevel=2)
    if form == "latex":
        return in_latex(tables.latex(frame.fillna("")), mark).encode()
    if form == "markdown":
        return in_markdown(tables.markdown(frame.fillna("")), mark).encode()
    if form == "json":
        return f"{frame.to_json(orient='records', double_precision=15, force_ascii=False)}\n".encode()
    if form == "csv":
        return frame.to_csv(index=False, lineterminator="\n").encode()
    file = io.BytesIO()
    try:
        frame.to_parquet(file)
    except ImportError:
        problem = "parquet needs pyarrow: pip install 'fedsim-jax[parquet]', or pip install pyarrow"
        raise DirectoryError(problem) from None
    return file.getvalue()


def _table(path: Path, name: str | None) -> tuple[pd.DataFrame, str]:
    """A table, and the mark of a run that has not ended."""
    record, frames = directory.sound_record(path), {}
    if not ended(record):
        record, frames = contents(path)
    read = frames.get if frames else partial(read_table, path)
    if name is not None:
        names = sorted(frames) or sorted(file.stem for file in path.glob("*.csv"))
        table = read(name) if name in names else None  # a name, no path
        if table is None:
            raise DirectoryError(f"{path}: has no table {ascii(name)[:80]}; there are {', '.join(names) or 'none'}")
        return table, mark_of(record)
    summary = read("summary")
    if summary is None:
        raise DirectoryError(f"{path}: has no summary.csv")
    with as_written(path):
        return tables.for_paper(summary, read("compare"), record.get("score", "final")), mark_of(record)
