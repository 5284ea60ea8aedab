"""Tables in files: the kinds `csv`, `parquet` and `xlsx`."""

import os
from typing import Annotated, Any, BinaryIO

from annotated_types import Ge

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.kinds.targets import columns_of
from fedsim.sources.arrays import Arrays
from fedsim.sources.arrow import parquet_in
from fedsim.sources.cells import Decimal
from fedsim.sources.client_tables import CLIENT, client_tables, require_present
from fedsim.sources.columns import assign_roles, of_frame
from fedsim.sources.delimited import Dialect, table_in
from fedsim.sources.files import Name, opened, sound
from fedsim.sources.packages import required
from fedsim.sources.table_keys import TableKeys, with_table_keys
from fedsim.sources.workbook import require_no_errors, sheet_in

CLIENT_OF_FOLDER = "client: in a folder, the client of a row is its file; remove client"


@dataset
@with_table_keys
def csv(
    path: Name,
    keys: TableKeys,
    delimiter: Name = "auto",
    decimal: Decimal = ".",
    sha256: str | None = None,
) -> Arrays:
    """A table in UTF-8 with a header, plain or gzipped: a row per sample, with a target column.

    Target: whole numbers are classes 0, 1, ...; with any other number among them (even `1.0`,
    unless there are blanks among them) all are regression targets; texts are names of classes,
    which are numbered in sorted order. Timestamps, dates and ids as classes are refused, recognised
    by their number.

    Features: a column holds numbers where at least half of its cells, not counting blanks, are
    numbers; else dates, where at least half are ISO dates (`2024-05-01`, `2024-05-01T12:30:00`,
    optionally followed by `Z` or `+02:00`), which are refused, or days since 1970-01-01 UTC, with
    times as fractions of a day, in UTC unless they have an offset; any other cell in such a column
    is refused. Any other column is text: each of its texts, at most 100, becomes a feature, in
    sorted order, that is 1 where the column holds it.

    Blanks are empty cells, `NA`, `N/A`, `NaN`, `nan`, `null`, `NULL` and `?`, and those that a
    short row lacks. Spaces around cells and names are ignored. All problems of cells are reported
    at once; the header is row 1. Columns called `id`, and names that end in `_id`, are left out,
    which is said.

    A folder has a table for each client, which is called as its file is; the partition is then
    `natural`. Columns and categories are those of all tables; cells of a column that one lacks are
    blank there, which is said.

    Args:
      path: the file, or a folder of such files, in the scenario's folder, the working directory or
        a `--data-root`; files elsewhere are not read.
      keys: those of tables.
      delimiter: the character between cells, or `tab`; `auto`: the one of `,` `;` `|` and tab that
        Python's `csv.Sniffer` finds.
      decimal: the decimal separator; with `","`, `1,5` is one and a half, and a comma is not a
        delimiter.
      sha256: the file's hash; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: naming the file, rows and columns, if it is not such a table.
    """
    dialect = Dialect(delimiter, decimal)
    if os.path.isdir(path):
        return _of_folder(path, keys, dialect, sha256)
    with opened(path, sha256) as file:
        frame = table_in(file, dialect)
        return of_frame(frame, keys, decimal, lambda row: f"row {frame.index[row]}")


@dataset
@with_table_keys
def parquet(path: Name, keys: TableKeys, sha256: str | None = None) -> Arrays:
    """A Parquet table: a row per sample, with a target column; otherwise as `csv`.

    Columns of numbers and truth values are features as they are; dates and timestamps are
    refused, or days since 1970-01-01 UTC (UTC where the type has no time zone), durations become
    days; text becomes features as in `csv`. In the target, integers or text are classes, floats are
    regression targets. Needs pyarrow: `pip install 'fedsim-jax[parquet]'`.

    Args:
      path: the file, in the scenario's folder, the working directory or a `--data-root`; files
        elsewhere are not read.
      keys: those of tables.
      sha256: the file's hash; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: naming the file, rows (from 0) and columns, if it is not such a table.
    """
    required("pyarrow", "parquet", "parquet")
    with opened(path, sha256) as file:
        return of_frame(_read_parquet(file, keys.drop), keys)


@dataset
@with_table_keys
def xlsx(
    path: Name,
    keys: TableKeys,
    sheet: Annotated[int, Ge(0)] | Name = 0,
    sha256: str | None = None,
) -> Arrays:
    """A sheet of an Excel workbook: a row per sample, with a target column; otherwise as `csv`.

    The first row with values has the names of the columns. Rows without values are left out, and so
    are empty columns. Cells are read as the same table in a CSV file would be: dates as ISO dates,
    truth values as the texts TRUE and FALSE; times of the day and durations are days, `#N/A` is a
    blank, and 1.0 is the whole number 1, since a sheet does not distinguish them. Errors
    (`#DIV/0!`) are refused. Of merged cells, all but the first are blank.

    Formulas are never evaluated: the value that the program stored with a formula is read; without
    one, the cell is blank. Macros (`.xlsm`) are not run.

    Refused are also workbooks with a password, sheets of more than 5,000,000 cells, and files that
    unpack to more than 200 times their size. Needs openpyxl: `pip install
    'fedsim-jax[excel]'`. It reads about 100,000 cells a second; CSV and Parquet are faster.

    Args:
      path: the file, in the scenario's folder, the working directory or a `--data-root`; files
        elsewhere are not read.
      keys: those of tables.
      sheet: the sheet's name, or its number from 0.
      sha256: the file's hash; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: naming the file, rows and columns, if it is not such a table.
    """
    with opened(path, sha256) as file:
        frame, about_others = sheet_in(file, sheet)
        require_no_errors(frame.drop(columns=keys.drop, errors="ignore"))
        try:
            assign_roles(list(frame.columns), keys)
        except DataError as error:
            raise DataError(*error.lines, *filter(None, [about_others])) from None
        return of_frame(frame, keys, row_name=lambda row: f"row {frame.index[row]}")


def _of_folder(path: str, keys: TableKeys, dialect: Dialect, sha256: str | None) -> Arrays:
    if keys.client is not None:
        raise DataError(f"{path}: {CLIENT_OF_FOLDER}")
    keys = keys._replace(client=CLIENT)
    tables = client_tables(path, sha256, dialect, columns_of(keys.target))
    try:
        roles = assign_roles(list(tables.frame.columns), keys)
        features = [roles.names[position] for position in roles.features]
        remarks = require_present(tables, keys.missing, features)
        arrays = of_frame(tables.frame, keys, dialect.decimal, tables.row_name)
    except DataError as error:
        raise error.with_prefix(path) from None
    return arrays._replace(remarks=(*remarks, *arrays.remarks))


def _read_parquet(file: BinaryIO, drop: list[str]) -> Any:
    from pyarrow.parquet import ParquetFile

    with sound("parquet file"):
        schema = ParquetFile(file).schema_arrow
        _require_flat(schema, drop)
        texts = [field.name for field in schema if str(field.type) in ("string", "large_string")]
        return parquet_in(file, encoded=texts).to_pandas()


def _require_flat(schema: Any, drop: list[str]) -> None:
    """Refuse columns whose cells are lists or records, such as images."""
    nested = [field.name for field in schema if field.type.num_fields and field.name not in drop]
    if nested:
        problem = "holds lists or records, but a cell of a table is a number or a text"
        remedy = "kind: huggingface reads images and lists from the folder of such files"
        raise DataError(*(f"column {name[:40]!a}: {problem}; {remedy}" for name in nested))
