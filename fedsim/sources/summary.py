"""The columns of a table, whether samples can be made of it or not: counts for each column."""

import math
import os
from typing import Any, NamedTuple

import numpy as np

from fedsim.sources.cells import (
    BLANK,
    Cells,
    Parser,
    cells_of,
    decimal_comma_in,
    parse_comma_number,
    parse_date,
    parsed,
    parser_of,
)
from fedsim.sources.client_tables import client_tables
from fedsim.sources.dates import date_of
from fedsim.sources.delimited import PARSERS, POINT, Dialect, table_in
from fedsim.sources.files import opened
from fedsim.sources.workbook import sheet_in

MAX_DISTINCT = 10_000  # different values of a column that are counted
SHOWN_CHARACTERS = 40  # of a text


class Summary(NamedTuple):
    """The columns of a table.

    Attributes:
      columns: for each its `name`, `type`, `blanks`, `distinct`, `distinct_at_least` (whether there
        may be more), and `least` and `most` (None where there are no values).
      rows: the number of rows.
      decimal_comma: whether some column has numbers with a decimal comma.
      note: a sentence about the file; empty if there is nothing to say.
    """

    columns: list[dict[str, Any]]
    rows: int
    decimal_comma: bool = False
    note: str = ""


def summary_of(
    kind: str, path: str, delimiter: str = "auto", decimal: str = POINT, sheet: int | str = 0
) -> Summary | None:
    """Return the columns of a table in a file; None for data of other kinds.

    Args:
      kind: the kind of the data set.
      path: the file.
      delimiter: the character between cells, as `csv` takes it.
      decimal: the decimal separator, as `csv` takes it.
      sheet: the sheet's name or number, as `xlsx` takes it.

    Raises:
      DataError: for a file that is no table.
    """
    if kind not in ("csv", "parquet", "xlsx"):
        return None
    frame, note = _table(kind, path, Dialect(delimiter, decimal), sheet)

    columns = []
    has_commas = False
    for position, name in enumerate(frame.columns):
        cells = cells_of(frame.iloc[:, position])
        parser = parser_of(cells, PARSERS[decimal])
        if parser is None and decimal_comma_in(cells) is not None:
            has_commas = True
            parser = parse_comma_number
        is_date = parser is parse_date or frame.dtypes.iloc[position].kind == "M"
        values, blanks = _values(cells, parser)
        kind = _kind(values, parser, is_date)
        columns.append({"name": name, "type": kind, "blanks": blanks, **_range(values, kind)})
    return Summary(columns, len(frame), has_commas, note)


def _table(kind: str, path: str, dialect: Dialect, sheet: int | str) -> tuple[Any, str]:
    """The table in a file or a folder, and a sentence about the file."""
    if os.path.isdir(path):
        return client_tables(path, None, dialect, targets=[""]).frame, ""
    with opened(path) as file:
        if kind == "xlsx":
            return sheet_in(file, sheet)
        frame = table_in(file, dialect, target="") if kind == "csv" else _flat_parquet(file)
        return frame, ""


def _flat_parquet(file: Any) -> Any:
    """The columns of a Parquet file that hold numbers or texts, as a DataFrame."""
    from fedsim.sources.arrow import parquet_in, require_pyarrow

    require_pyarrow("parquet")
    from fedsim.sources.arrow_columns import is_scalar

    table = parquet_in(file)
    kinds = zip(table.column_names, table.schema.types, strict=True)
    names = [name for name, kind in kinds if is_scalar(kind) or str(kind) == "null"]
    return table.select(names).replace_schema_metadata(None).to_pandas()


def _values(cells: Cells, parser: Parser | None) -> tuple[Any, int]:
    """The values of a column, and the number of blanks; cells that are neither are left out."""
    if isinstance(cells, np.ndarray):
        values = cells[~np.isnan(cells)]
        return values, len(cells) - len(values)
    texts = [cell for cell in cells if cell not in BLANK]
    blanks = len(cells) - len(texts)
    if parser is None:
        return texts, blanks
    values, wrong = parsed(texts, parser)
    return values[~wrong], blanks


def _kind(values: Any, parser: Parser | None, is_date: bool) -> str:
    """`whole numbers`, `numbers`, `dates`, `text`, or `blank`."""
    if not len(values):
        return "blank"
    if is_date:
        return "dates"
    if parser is None:
        return "text"
    with np.errstate(invalid="ignore"):  # infinite numbers are not whole
        return "whole numbers" if (values % 1 == 0).all() else "numbers"


def _range(values: Any, kind: str) -> dict[str, Any]:
    """How many values there are, and the smallest and the largest of them."""
    distinct = len(set(values) if isinstance(values, list) else np.unique(values))
    return {
        "distinct": min(distinct, MAX_DISTINCT),
        "distinct_at_least": distinct > MAX_DISTINCT,
        "least": _shown(min(values), kind) if len(values) else None,
        "most": _shown(max(values), kind) if len(values) else None,
    }


def _shown(end: Any, kind: str) -> Any:
    """The smallest or largest value as JSON represents it."""
    if isinstance(end, str):
        return end[:SHOWN_CHARACTERS]
    if not math.isfinite(end):
        return str(end)
    if kind == "dates":
        return date_of(end)
    return int(end) if kind == "whole numbers" else float(end)
