"""Tables in files: the kinds `csv` and `parquet`."""

from typing import Any, Literal

from fedsim.compose import dataset
from fedsim.errors import DataError, TooLarge
from fedsim.limits import require_memory
from fedsim.sources.arrays import Arrays
from fedsim.sources.arrow import require_size, texts_of
from fedsim.sources.columns import Missing
from fedsim.sources.delimited import of_text
from fedsim.sources.files import Name, opened
from fedsim.sources.frame import of_frame

HELD = 16  # bytes of a cell of a table at least: as it is read, and among the features


@dataset
def csv(
    path: Name,
    target: Name = "y",
    client: Name | None = None,
    missing: Missing = "refuse",
    standardize: bool = False,
    drop: list[str] = [],  # noqa: B006 (read, never changed)
    columns: list[str] = [],  # noqa: B006
    delimiter: Name = "auto",
    decimal: Literal[".", ","] = ".",
    sha256: str | None = None,
) -> Arrays:
    """A table in UTF-8 with a header, plain or gzipped: one row per sample, a target column, perhaps a client column.

    Target: whole numbers are classes 0, 1, ...; with any other number among them (`1.0` too) all are regression targets;
    text names the classes, which are numbered in the order of the sorted names. Timestamps, dates and ids as classes are
    refused, told by how many they are. Features: a column holds numbers where at
    least half of its cells in the first 1,000 rows, blanks aside, are numbers; dates, where at least half are ISO dates
    (`2024-05-01`, `2024-05-01T12:30:00`, with `Z` or `+02:00` behind or not), which become days since 1970-01-01 UTC, times
    as fractions of a day, UTC where nothing else is said; a cell that fits neither is refused. Any other column is text, and
    each of its texts, sorted, at most 100, becomes a feature that is 1 where the column holds it. Blank are empty cells,
    `NA`, `N/A`, `NaN`, `nan`, `null`, `NULL` and `?`. Blanks around cells and names do not count. What is wrong is told for
    all cells at once.

    Args:
      path: of the file, from the scenario's folder, the working directory or a `--data-root`; elsewhere none is read.
      target: column of the labels.
      client: column of the client ids; left out: `client`, if there is such a column. Ids keep their names in all tables.
      missing: blanks are refused; or filled with the column's `mean` or `median` over the training samples (in a column of
        text a blank is a category of its own); or their samples are left out. A blank label is refused but under `drop`.
      standardize: subtract the mean of every feature and divide by its standard deviation, both over the training samples;
        features that are 0 or 1 stay, constant ones become 0.
      drop: columns that are left out.
      columns: columns that are no features, and that a partition may name; the one that it names need not stand here.
      delimiter: between cells, one character, or `tab`; `auto`: the one of `,` `;` `|` and tab that fits the header.
      decimal: what stands before the decimals of a number; `","`: `1,5` is one and a half, and no delimiter is a comma.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for a file that is not such a table, naming file, lines and columns.
    """
    del standardize  # by `prepare`, which knows the training samples
    with opened(path, sha256) as file:
        return of_text(file, target, client, missing, drop, delimiter, columns, decimal)


@dataset
def parquet(
    path: Name,
    target: Name = "y",
    client: Name | None = None,
    missing: Missing = "refuse",
    standardize: bool = False,
    drop: list[str] = [],  # noqa: B006 (read, never changed)
    columns: list[str] = [],  # noqa: B006
    sha256: str | None = None,
) -> Arrays:
    """A table in the Parquet format: one row per sample, a target column, perhaps a client column, as in `csv`.

    Columns of numbers and truth values are features as they are; dates and timestamps become days since 1970-01-01 UTC (UTC
    where the type has no time zone), durations days; text becomes features as in `csv`. A file that unpacks to more than
    200 times its size is refused. Needs pyarrow: `pip install 'fedsim-jax[parquet]'`.

    Args:
      path: of the file, from the scenario's folder, the working directory or a `--data-root`; elsewhere none is read.
      target: column of the labels: integers or text are classes, floats regression targets.
      client: column of the client ids; left out: `client`, if there is such a column.
      missing: what happens to blanks, as in `csv`.
      standardize: as in `csv`.
      drop: columns that are left out.
      columns: as in `csv`.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for a file that is not such a table, naming file, rows (from 0) and columns.
    """
    del standardize
    try:
        from pyarrow.parquet import ParquetFile

        from fedsim.sources.arrow_columns import require_sound_texts
    except ImportError:
        raise DataError(
            "parquet needs pyarrow: pip install 'fedsim-jax[parquet]', or pip install pyarrow"
        ) from None
    with opened(path, sha256) as file:
        try:
            table = ParquetFile(file)
            require_size(table.metadata, file.seek(0, 2))
            require_memory(table=HELD * table.metadata.num_rows * table.metadata.num_columns)
            _require_flat(table.schema_arrow, drop)
            content = ParquetFile(file, read_dictionary=texts_of(table.schema_arrow)).read()
            require_sound_texts(content)
            # A column becomes one of the frame where it lies, or is freed when it was copied.
            frame = content.to_pandas(split_blocks=True, self_destruct=True)
            del content
        except (DataError, TooLarge):
            raise
        except Exception as error:  # pyarrow's own errors, and what they wrap
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"not a sound parquet file: {reason[:200]}") from None
        return of_frame(frame, target, client, missing, drop, columns)


def _require_flat(schema: Any, drop: list[str]) -> None:
    """Refuse columns whose cells are lists or records, such as images."""
    nested = [field.name for field in schema if field.type.num_fields and field.name not in drop]
    if nested:
        text = "holds lists or records, and a table has a number or a text in each cell"
        instead = "kind: huggingface reads images and lists from the folder of such files"
        raise DataError(f"column {nested[0][:40]!a}: {text}; {instead}")
