"""The columns of a table, whether samples can be made of it or not: counts for each column."""

import math
import os
from typing import Any, NamedTuple

import numpy as np

from fedsim.sources.cells import Decimal, cells_of, content_of, numbers_in
from fedsim.sources.client_tables import client_tables
from fedsim.sources.delimited import Dialect, table_in
from fedsim.sources.files import opened
from fedsim.sources.ids import BLANK
from fedsim.sources.packages import required
from fedsim.sources.workbook import sheet_in

MAX_DISTINCT = 10_000  # different values of a column that are counted
SHOWN_CHARACTERS = 40  # of a text
DAY_SECONDS = 86_400
MIN_IDS = 20  # rows of a table, from which on columns that differ in all of them look like ids
SIGNS = r"[ $€£¥%,]"  # around numbers, and between thousands


class Summary(NamedTuple):
    """The columns of a table.

    Each has its `name`, `type`, `blanks`, `distinct`, `distinct_at_least` (whether there may be
    more), `least` and `most` (None where there are no values), and `remark`: what a user may not
    have meant with it, or nothing.
    """

    columns: list[dict[str, Any]]
    rows: int
    note: str = ""  # a sentence about the file, if there is something to say


def summary_of(
    kind: str,
    path: str,
    delimiter: str = "auto",
    decimal: Decimal = ".",
    sheet: int | str = 0,
) -> Summary | None:
    """Return the columns of a table, read with the keys of `csv` and `xlsx`; None: other data."""
    if kind not in ("csv", "parquet", "xlsx"):
        return None
    frame, note = _table(kind, path, Dialect(delimiter, decimal), sheet)
    columns = [_column(frame.iloc[:, j], decimal) for j in range(frame.shape[1])]
    return Summary(columns, len(frame), note)


def _table(kind: str, path: str, dialect: Dialect, sheet: int | str) -> tuple[Any, str]:
    """The table in a file or a folder, and a sentence about the file."""
    if os.path.isdir(path):
        return client_tables(path, None, dialect).frame, ""
    with opened(path) as file:
        if kind == "xlsx":
            return sheet_in(file, sheet)
        if kind == "parquet":
            return _flat_parquet(file), ""
        return table_in(file, dialect), ""


def _flat_parquet(file: Any) -> Any:
    required("pyarrow", "parquet", "parquet")
    from fedsim.sources.arrow import parquet_in
    from fedsim.sources.arrow_columns import is_scalar

    table = parquet_in(file)
    names = [f.name for f in table.schema if is_scalar(f.type) or str(f.type) == "null"]
    return table.select(names).replace_schema_metadata(None).to_pandas()


def _column(values: Any, decimal: Decimal) -> dict[str, Any]:
    import pandas as pd

    cells = cells_of(values)
    if isinstance(cells, np.ndarray):
        kind = "dates" if values.dtype.kind == "M" else "numbers"
        known = cells[~np.isnan(cells)]
    else:
        kind, numbers = content_of(cells, decimal)
        known = cells[~cells.isin(BLANK)] if kind == "text" else numbers[~np.isnan(numbers)]
    if not len(known):
        kind = "blank"
    elif kind == "numbers" and np.isfinite(known).all() and (np.floor(known) == known).all():
        kind = "whole numbers"
    distinct = len(pd.unique(known))
    return {
        "name": values.name,
        "type": kind,
        "blanks": len(values) - len(known),
        "distinct": min(distinct, MAX_DISTINCT),
        "distinct_at_least": distinct > MAX_DISTINCT,
        "least": _shown(known.min(), kind) if len(known) else None,
        "most": _shown(known.max(), kind) if len(known) else None,
        "remark": _remark(kind, known, distinct, len(values)),
    }


def _remark(kind: str, known: Any, distinct: int, rows: int) -> str:
    """What is remarkable about a column: values as of an id, or numbers with signs."""
    if kind == "text":
        with_signs = known[known.str.contains(SIGNS)]
        are_numbers = np.isfinite(numbers_in(known.str.replace(SIGNS, "", regex=True)))
        if len(with_signs) and 2 * are_numbers.sum() >= len(known):
            found = ascii(with_signs.iloc[0][:SHOWN_CHARACTERS])
            return f"holds numbers with signs or separators ({found}), which are read as text"
    if kind in ("text", "whole numbers") and distinct == rows >= MIN_IDS:
        noun = "text" if kind == "text" else "whole number"
        return f"has another {noun} in each of {rows:,} rows, as ids have"
    return ""


def _shown(end: Any, kind: str) -> Any:
    """The smallest or largest value as JSON represents it."""
    if isinstance(end, str):
        return end[:SHOWN_CHARACTERS]
    if not math.isfinite(end):
        return str(end)
    if kind == "dates":
        moment = np.datetime64(round(end * DAY_SECONDS), "s")
        return str(moment).removesuffix("T00:00:00")
    return int(end) if kind == "whole numbers" else float(end)
