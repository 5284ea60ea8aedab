"""Tables in files: the kinds `csv`, `parquet` and `xlsx`."""

import os
from typing import Annotated, Any, BinaryIO, Literal

from annotated_types import Ge

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.kinds.targets import TimeAndEvent, columns_of
from fedsim.sources.arrays import Arrays
from fedsim.sources.arrow import parquet_in
from fedsim.sources.cells import Task
from fedsim.sources.client_tables import CLIENT, client_tables, require_present
from fedsim.sources.columns import Dates, Missing, Statistics, assign_roles, of_frame
from fedsim.sources.delimited import PARSERS, Dialect, table_in
from fedsim.sources.files import Name, opened, sound
from fedsim.sources.packages import required
from fedsim.sources.workbook import require_no_errors, sheet_in

CLIENT_OF_FOLDER = "client: in a folder, the client of a row is its file; remove client"


@dataset
def csv(
    path: Name,
    target: Name | TimeAndEvent | list[str] = "y",
    client: Name | None = None,
    missing: Missing = "refuse",
    standardize: bool = False,
    statistics: Statistics = "all",
    indicators: bool = False,
    fill: float = 0.0,
    dates: Dates = None,
    task: Task = None,
    drop: list[str] = [],  # noqa: B006 (read, never changed)
    columns: list[str] = [],  # noqa: B006
    delimiter: Name = "auto",
    decimal: Literal[".", ","] = ".",
    sha256: str | None = None,
) -> Arrays:
    """A table in UTF-8 with a header, plain or gzipped: a row per sample, with a target column.

    Target: whole numbers are classes 0, 1, ...; with any other number among them (even `1.0`,
    unless there are blanks among them) all are regression targets; texts are names of classes,
    which are numbered in sorted order. Timestamps, dates and ids as classes are refused, recognised
    by their number.

    Features: a column holds numbers where at least half of its cells in the first 1,000 rows, not
    counting blanks, are numbers; else dates, where at least half are ISO dates (`2024-05-01`,
    `2024-05-01T12:30:00`, optionally followed by `Z` or `+02:00`), which are refused, or days since
    1970-01-01 UTC, with times as fractions of a day, in UTC unless they have an offset; any other
    cell in such a column is refused. Any other column is text: each of its texts, at most 100,
    becomes a feature, in sorted order, that is 1 where the column holds it.

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
      target: the column of the labels; or of survival, `{time: COLUMN, event: COLUMN}`: times above
        0, and an event, 1, or none by then, 0; or of several labels, `[COLUMN, ...]`: a 1 where the
        sample has the label, else 0.
      client: the column of the client ids; left out: `client`, if there is such a column. Tables
        show the ids.
      missing: blanks are refused; or replaced by the column's `mean` or `median` over the training
        samples, or by the `constant` number `fill` (in a column of text a blank is a category); or
        their samples are dropped. A blank label is refused except with `drop`.
      standardize: subtract each feature's mean and divide by its standard deviation, both over the
        training samples; features that are 0 or 1 stay, constant ones become 0.
      statistics: whose training samples means, medians and deviations are taken over: of `all`
        clients, or of the `client` itself, which the samples have to name. A client that never
        trains takes its own rows. Where a client has no number, those of all clients are taken.
      indicators: a further feature for each column of numbers with blanks, 1 where it is blank.
      fill: what `constant` puts in place of blanks.
      dates: columns of dates are refused, or, with `ordinal`, features.
      task: what the target is, whatever its numbers look like: `classification`, with whole numbers
        as classes, or `regression`.
      drop: columns that are left out.
      columns: columns for partitions, which are not features; the one that the partition names need
        not be listed.
      delimiter: the character between cells, or `tab`; `auto`: the one of `,` `;` `|` and tab that
        fits the header.
      decimal: the decimal separator; with `","`, `1,5` is one and a half, and a comma is not a
        delimiter.
      sha256: the file's hash; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: naming the file, rows and columns, if it is not such a table.
    """
    del standardize, statistics, indicators, fill  # for `prepare`, which knows the training samples
    parse = PARSERS[decimal]
    dialect = Dialect(delimiter, decimal)
    if os.path.isdir(path):
        if client is not None:
            raise DataError(f"{path}: {CLIENT_OF_FOLDER}")
        tables = client_tables(path, sha256, dialect, columns_of(target))
        try:
            roles = assign_roles(list(tables.frame.columns), target, CLIENT, drop, columns)
            features = [roles.names[position] for position in roles.features]
            remarks = require_present(tables, missing, features)
            keys = (target, CLIENT, missing, dates, task, drop, columns, parse)
            arrays = of_frame(tables.frame, *keys, row_name=tables.row_name)
        except DataError as error:
            raise error.with_prefix(path) from None
        return arrays._replace(remarks=(*remarks, *arrays.remarks))
    with opened(path, sha256) as file:
        frame = table_in(file, dialect, columns_of(target)[0])
        return of_frame(
            frame, target, client, missing, dates, task, drop, columns, parse, frame.index
        )


@dataset
def parquet(
    path: Name,
    target: Name | TimeAndEvent | list[str] = "y",
    client: Name | None = None,
    missing: Missing = "refuse",
    standardize: bool = False,
    statistics: Statistics = "all",
    indicators: bool = False,
    fill: float = 0.0,
    dates: Dates = None,
    task: Task = None,
    drop: list[str] = [],  # noqa: B006 (read, never changed)
    columns: list[str] = [],  # noqa: B006
    sha256: str | None = None,
) -> Arrays:
    """A Parquet table: a row per sample, with a target column; otherwise as `csv`.

    Columns of numbers and truth values are features as they are; dates and timestamps are
    refused, or days since 1970-01-01 UTC (UTC where the type has no time zone), durations become
    days; text becomes
    features as in `csv`. Needs pyarrow: `pip install 'fedsim-jax[parquet]'`.

    Args:
      path: the file, in the scenario's folder, the working directory or a `--data-root`; files
        elsewhere are not read.
      target: the column of the labels: integers or text are classes, floats are regression targets;
        or times and events, as in `csv`.
      client: the column of the client ids; left out: `client`, if there is such a column.
      missing: what happens to blanks, as in `csv`.
      standardize: as in `csv`.
      statistics: as in `csv`.
      indicators: as in `csv`.
      fill: as in `csv`.
      dates: as in `csv`.
      task: as in `csv`.
      drop: columns that are left out.
      columns: as in `csv`.
      sha256: the file's hash; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: naming the file, rows (from 0) and columns, if it is not such a table.
    """
    del standardize, statistics, indicators, fill
    required("pyarrow", "parquet", "parquet")
    with opened(path, sha256) as file:
        frame = _read_parquet(file, drop)
        return of_frame(frame, target, client, missing, dates, task, drop, columns)


@dataset
def xlsx(
    path: Name,
    target: Name | TimeAndEvent | list[str] = "y",
    client: Name | None = None,
    missing: Missing = "refuse",
    standardize: bool = False,
    statistics: Statistics = "all",
    indicators: bool = False,
    fill: float = 0.0,
    dates: Dates = None,
    task: Task = None,
    drop: list[str] = [],  # noqa: B006 (read, never changed)
    columns: list[str] = [],  # noqa: B006
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
      target: the column of the labels, as in `csv`.
      client: the column of the client ids; left out: `client`, if there is such a column.
      missing: what happens to blanks, as in `csv`.
      standardize: as in `csv`.
      statistics: as in `csv`.
      indicators: as in `csv`.
      fill: as in `csv`.
      dates: as in `csv`.
      task: as in `csv`.
      drop: columns that are left out.
      columns: as in `csv`.
      sheet: the sheet's name, or its number from 0.
      sha256: the file's hash; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: naming the file, rows and columns, if it is not such a table.
    """
    del standardize, statistics, indicators, fill
    with opened(path, sha256) as file:
        frame, about_others = sheet_in(file, sheet)
        require_no_errors(frame.drop(columns=drop, errors="ignore"))
        try:
            assign_roles(list(frame.columns), target, client, drop, columns)
        except DataError as error:
            raise DataError(*error.lines, *filter(None, [about_others])) from None
        return of_frame(
            frame, target, client, missing, dates, task, drop, columns, row_numbers=frame.index
        )


def _read_parquet(file: BinaryIO, drop: list[str]) -> Any:
    """The table of a Parquet file as a pandas DataFrame."""
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
