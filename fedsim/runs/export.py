"""Tables of a run directory for other programs."""

import io
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.disk.tables import as_written, inert, read_table
from fedsim.errors import DirectoryError
from fedsim.report import tables
from fedsim.report.paper_table import paper_table
from fedsim.report.results import rows_of
from fedsim.runs import directory


def exported(path: Path, table: str | None, form: str, excel_safe: bool = False, spread: str = "sd") -> bytes:
    """One table in one form.

    Args:
      path: of the run directory.
      table: name of one of its tables; None: a row per method, as a paper shows it.
      form: `csv`, `parquet`, `latex`, `markdown` or `json`.
      excel_safe: put an apostrophe before text that a spreadsheet would compute.
      spread: of a paper's table, `sd` or `interval` of the mean.

    Raises:
      DirectoryError: when there is no such run or table, or what the form needs is not installed.
    """
    if table is None and form == "latex":
        return _paper(path, spread)
    frame = _table(path, table, spread)
    if excel_safe:
        words = frame.select_dtypes(exclude="number").columns
        frame[words] = frame[words].map(lambda cell: inert(cell) if isinstance(cell, str) else cell)
    if form == "latex":
        return tables.latex(frame.fillna("")).encode()
    if form == "markdown":
        return tables.markdown(frame.fillna("")).encode()
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


def _paper(path: Path, spread: str) -> bytes:
    """A paper's table."""
    record, summary = _summary(path)
    compare = read_table(path, "compare")
    with as_written(path):
        rows = rows_of(summary), None if compare is None else rows_of(compare)
        return paper_table(*rows, record.get("score", "final"), record["scenario"], spread).encode()


def _summary(path: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """The record of a run and its `summary.csv`."""
    record, summary = directory.sound_record(path), read_table(path, "summary")
    if summary is None:
        raise DirectoryError(f"{path}: has no summary.csv; the run has not ended")
    return record, summary


def _table(path: Path, name: str | None, spread: str) -> pd.DataFrame:
    if name is not None:
        directory.sound_record(path)
        names = sorted(file.stem for file in path.glob("*.csv"))
        table = read_table(path, name) if name in names else None  # a name, no path
        if table is None:
            raise DirectoryError(f"{path}: has no table {ascii(name)[:80]}; there are {', '.join(names) or 'none'}")
        return table
    record, summary = _summary(path)
    with as_written(path):
        return tables.for_paper(summary, read_table(path, "compare"), record.get("score", "final"), spread)
