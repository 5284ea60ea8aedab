"""The columns of a table, whether samples can be made of it or not: counts for each column."""

import math
import os
from typing import Any, NamedTuple

import numpy as np

from fedsim.sources.cells import (
    BLANK,
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
from fedsim.sources.packages import required
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
    described = [_column(frame.iloc[:, j], PARSERS[decimal]) for j in range(frame.shape[1])]
    columns = [column for column, _ in described]
    has_commas = decimal == POINT and parse_comma_number in [parser for _, parser in described]
    return Summary(columns, len(frame), has_commas, note)


def _table(kind: str, path: str, dialect: Dialect, sheet: int | str) -> tuple[Any, str]:
    """The table in a file or a folder, and a sentence about the file."""
    if os.path.isdir(path):
        return client_tables(path, None, dialect, targets=[""]).frame, ""
    with opened(path) as file:
        if kind == "xlsx":
            return sheet_in(file, sheet)
        if kind == "parquet":
            return _flat_parquet(file), ""
        return table_in(file, dialect, target=""), ""


def _flat_parquet(file: Any) -> Any:
    """The columns of a Parquet file that hold numbers or texts, as a DataFrame."""
    required("pyarrow", "parquet", "parquet")
    from fedsim.sources.arrow import parquet_in
    from fedsim.sources.arrow_columns import is_scalar

    table = parquet_in(file)
    names = [f.name for f in table.schema if is_scalar(f.type) or str(f.type) == "null"]
    return table.select(names).replace_schema_metadata(None).to_pandas()


def _column(values: Any, parse: Parser) -> tuple[dict[str, Any], Parser | None]:
    """What a column holds, and what makes numbers of its cells; None: it holds text."""
    cells = cells_of(values)
    parser = parser_of(cells, parse)
    if parser is None and decimal_comma_in(cells) is not None:
        parser = parse_comma_number
    known: Any
    if isinstance(cells, np.ndarray):
        known = cells[~np.isnan(cells)]
        blanks = len(cells) - len(known)
    else:
        known = [cell for cell in cells if cell not in BLANK]
        blanks = len(cells) - len(known)
        if parser is not None:
            numbers, wrong = parsed(known, parser)
            known = numbers[~wrong]

    kind = "text"
    if not len(known):
        kind = "blank"
    elif parser is parse_date or values.dtype.kind == "M":
        kind = "dates"
    elif parser is not None:
        with np.errstate(invalid="ignore"):  # infinite numbers are not whole
            kind = "whole numbers" if (known % 1 == 0).all() else "numbers"
    distinct = len(set(known) if isinstance(known, list) else np.unique(known))
    described = {
        "name": values.name,
        "type": kind,
        "blanks": blanks,
        "distinct": min(distinct, MAX_DISTINCT),
        "distinct_at_least": distinct > MAX_DISTINCT,
        "least": _shown(min(known), kind) if len(known) else None,
        "most": _shown(max(known), kind) if len(known) else None,
    }
    return described, parser


def _shown(end: Any, kind: str) -> Any:
    """The smallest or largest value as JSON represents it."""
    if isinstance(end, str):
        return end[:SHOWN_CHARACTERS]
    if not math.isfinite(end):
        return str(end)
    if kind == "dates":
        return date_of(end)
    return int(end) if kind == "whole numbers" else float(end)
