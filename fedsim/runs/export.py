"""Tables of a run directory for other programs."""

import io
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedsim.disk.tables import inert, read_table, reporting_table_errors
from fedsim.errors import DirectoryError
from fedsim.installed import added, module_of
from fedsim.report import tables
from fedsim.report.mark import in_latex, in_markdown, unfinished_mark
from fedsim.report.paper_table import paper_table
from fedsim.report.results import errors_in, metric_of, rows_of
from fedsim.report.workbook import workbook
from fedsim.runs.derive import contents
from fedsim.runs.directory import sound_record
from fedsim.runs.unfinished import by_setting, is_complete

# Numbers and intervals, as a paper's table has them.
NUMBERS = re.compile(r"[+-]?\d+(\.\d+)?( to [+-]?\d+(\.\d+)?)?")


class Source(NamedTuple):
    """A run directory whose tables are exported.

    Attributes:
      read: a table by its name; None where there is none.
    """

    path: Path
    record: dict[str, Any]
    names: list[str]
    read: Callable[[str], pd.DataFrame | None]


def exported(
    path: Path, table: str | None, form: str, guard: bool | None = None, spread: str = "sd"
) -> bytes:
    """A table of a run directory in one form.

    For an unfinished run it is what the run has committed so far, with a warning that says so.

    Args:
      table: the name of one of its tables; None: a row per method, as a paper shows it; in `xlsx`,
        all tables, with a sheet for each; in `json`, which programs read, the numbers of `compare`
        or, of a run, of `summary`.
      form: `csv`, `parquet`, `xlsx`, `latex`, `markdown` or `json`; or one of a field's own, of
        the whole run.
      guard: put an apostrophe before text that a spreadsheet would compute; None: in `csv` and
        `xlsx`, which spreadsheets open.
      spread: of a paper's table: `sd`, or `interval` of the mean.
    """
    for package, forms in added("EXPORTS"):
        if form in forms:
            return module_of(package, forms[form]).exported(path, table)
    source = _open(path)
    mark = unfinished_mark(source.record)
    if mark:
        warnings.warn(f"{path}: {mark}", stacklevel=2)
    if guard is None:
        guard = form in ("csv", "xlsx")
    if form == "xlsx":
        names = source.names if table is None else [table]
        frames = {name: _table(source, name) for name in names}
        if not frames:
            raise DirectoryError(f"{path}: has no tables")
        if guard:
            frames = {name: _with_guards(frame) for name, frame in frames.items()}
        return workbook(frames, mark)
    if table is None and form == "json":
        table = "compare" if "compare" in source.names else "summary"
    if table is None and form == "latex":
        return in_latex(_paper_table(source, spread), mark).encode()

    frame = _rows_for_paper(source, spread) if table is None else _table(source, table)
    if guard:
        frame = _with_guards(frame)
    return _encoded(frame, form, mark)


def _encoded(frame: pd.DataFrame, form: str, mark: str) -> bytes:
    """A table in one form, with the mark of an unfinished run where the form has room for it."""
    if form in ("latex", "markdown"):
        shown = frame.astype(object).fillna("")
        if form == "latex":
            return in_latex(tables.latex(shown), mark).encode()
        return in_markdown(tables.markdown(shown), mark).encode()
    if form == "json":
        text = frame.to_json(orient="records", double_precision=15, force_ascii=False)
        return f"{text}\n".encode()
    if form == "csv":
        return frame.to_csv(index=False, lineterminator="\n").encode()
    file = io.BytesIO()
    try:
        frame.to_parquet(file)
    except ImportError:
        problem = "parquet needs pyarrow: pip install 'fedsim-jax[parquet]', or pip install pyarrow"
        raise DirectoryError(problem) from None
    return file.getvalue()


def _with_guards(frame: pd.DataFrame) -> pd.DataFrame:
    """A table with an apostrophe before each text that a spreadsheet would compute."""
    words = frame.select_dtypes(exclude="number").columns
    frame[words] = frame[words].map(_guarded)
    return frame


def _guarded(cell: Any) -> Any:
    """A cell that a spreadsheet shows as it is; numbers that are written as text stay numbers."""
    if not isinstance(cell, str) or NUMBERS.fullmatch(cell):
        return cell
    return inert(cell)


def _open(path: Path) -> Source:
    record = sound_record(path)
    if is_complete(record):
        names = sorted(file.stem for file in path.glob("*.csv"))
        return Source(path, record, names, partial(read_table, path))
    record, frames = contents(path)
    return Source(path, record, sorted(frames), frames.get)


def _table(source: Source, name: str) -> pd.DataFrame:
    """One table by its name, which may not be a path."""
    table = source.read(name) if name in source.names else None
    if table is None:
        known = ", ".join(source.names) or "none"
        raise DirectoryError(f"{source.path}: has no table {ascii(name)[:80]}; there are {known}")
    return table


def _rows_for_paper(source: Source, spread: str) -> pd.DataFrame:
    """A row per method and variation."""
    score = source.record.get("score", "final")
    with reporting_table_errors(source.path):
        compare = source.read("compare")
        rounds = source.read("rounds")
        return tables.for_paper(
            summary=_summary(source),
            compare=compare,
            score=score,
            spread=spread,
            rounds=rounds,
            scenario=source.record["scenario"],
        )


def _paper_table(source: Source, spread: str) -> str:
    record = source.record
    with reporting_table_errors(source.path):
        summary = by_setting(record, {"summary": _summary(source)})["summary"]
        rows = rows_of(summary)
        compare = source.read("compare")
        return paper_table(
            summary=rows,
            compare=None if compare is None else rows_of(compare),
            score=record.get("score", "final"),
            scenario=record["scenario"],
            spread=spread,
            errors=errors_in(source.read("rounds"), metric_of(rows)),
        )


def _summary(source: Source) -> pd.DataFrame:
    """The table `summary`, which must have rows."""
    summary = source.read("summary")
    if summary is None:
        raise DirectoryError(f"{source.path}: has no summary.csv")
    if not len(summary):
        reason = "no round has been evaluated yet; continue the run (--resume)"
        raise DirectoryError(f"{source.path}: {reason}")
    return summary
