"""The columns of a table -> `Arrays`: roles, one-hot features, blanks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedsim.errors import DataError, nearest
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import (
    MAX_CATEGORIES,
    Features,
    Parser,
    Task,
    is_blank,
    parse_ids,
    parse_labels,
)
from fedsim.sources.classes import fault_of_classes
from fedsim.sources.faults import WHOLE_COLUMN, Faults
from fedsim.sources.remembered import (
    BLANK_CATEGORY,
    TableColumn,
    remark_on_numbers,
    remark_on_texts,
)

Missing = Literal["refuse", "mean", "median", "drop"]
Dates = Literal["ordinal"] | None
Chunk = tuple[list[list[str]], list[int]]  # rows of texts, and the numbers of their lines or rows


class Roles(NamedTuple):
    """The role of each column of a table, by its position among all columns."""

    names: list[str]  # of all columns
    target: int
    client: int | None
    features: list[int]
    extra: list[int]  # columns for partitions

    def used(self) -> set[int]:
        """The columns that are read."""
        client = [] if self.client is None else [self.client]
        return {self.target, *client, *self.features, *self.extra}


class Reading(NamedTuple):
    """What a scenario decides about the cells of a table.

    Attributes:
      missing: what happens to blanks.
      dates: whether dates may be features, as days since 1970.
      task: whether labels are classes or numbers; None: as they are written.
    """

    missing: Missing = "refuse"
    dates: Dates = None
    task: Task = None


class Table(NamedTuple):
    """A table that was read.

    Attributes:
      roles: the roles of its columns.
      features: its feature columns.
      target: the cells of the target column.
      client: the cells of the client column; empty if there is none.
      extra: the cells of each column for partitions.
      faults: what is wrong so far.
    """

    roles: Roles
    features: Features
    target: Sequence[str]
    client: Sequence[str]
    extra: Sequence[Sequence[str]]
    faults: Faults


def assign_roles(
    names: Sequence[str],
    target: str,
    client: str | None,
    drop: Sequence[str],
    columns: Sequence[str] = (),
) -> Roles:
    """Assign roles to the columns of a table.

    Args:
      names: the names of all columns.
      target: the column of the labels.
      client: the column of the ids; None: `client`, if there is such a column.
      drop: columns that are left out.
      columns: columns for partitions, which are not features.

    Raises:
      DataError: naming all columns that do not exist or occur twice; for a table without features.
    """
    names = list(names)
    if not names:
        raise DataError("empty: expected a header with column names")
    _require_different(names)

    requested = [("target", target)]
    if client is not None:
        requested.append(("client", client))
    requested += [("drop", name) for name in drop]
    requested += [("column", name) for name in columns]

    problems = []
    for role, name in requested:
        if name not in names:
            problems.append(f"{role}: no column {name[:40]!a}; {_suggestion(name, names)}")
    if client is None and "client" in names and "client" not in (target, *drop):
        client = "client"
    if target == client:
        problems.append(f"column {target[:40]!a} cannot be both target and client")
    for role, name in requested:
        if role != "drop" and name in drop:
            problems.append(f"drop: column {name[:40]!a} is the {role}")

    used = (target, client, *drop, *columns)
    features = [column for column, name in enumerate(names) if name not in used]
    if not features and not problems:
        problems.append(f"no feature columns besides {target[:40]!a}")
    if problems:
        raise DataError(*problems)
    return Roles(
        names=names,
        target=names.index(target),
        client=None if client is None else names.index(client),
        features=features,
        extra=[names.index(name) for name in dict.fromkeys(columns)],
    )


def read_table(chunks: Iterable[Chunk], roles: Roles, faults: Faults, parse: Parser) -> Table:
    """Read the rows of a table, chunk by chunk.

    Args:
      chunks: the rows below the header.
      roles: the roles of the columns.
      faults: what is wrong so far; reading adds to it.
      parse: makes numbers of cells.
    """
    features = Features(roles.features, faults, parse)
    target: list[str] = []
    client: list[str] = []
    extra: list[list[str]] = [[] for _ in roles.extra]
    for chunk, row_numbers in chunks:
        cells = list(zip(*chunk, strict=True))  # by column
        features.read([cells[column] for column in roles.features], row_numbers)
        target += cells[roles.target]
        if roles.client is not None:
            client += cells[roles.client]
        for extra_cells, column in zip(extra, roles.extra, strict=True):
            extra_cells += cells[column]
    return Table(
        roles=roles,
        features=features,
        target=target,
        client=client,
        extra=extra,
        faults=faults,
    )


def arrays_of(table: Table, reading: Reading) -> Arrays:
    """Return the samples of a table that was read.

    With `mean` and `median`, blanks among numbers stay NaN: their replacements are statistics of
    the training samples. Blanks in a column of text become a category of their own then.

    Args:
      table: the table.
      reading: what is decided about its cells.

    Raises:
      DataError: with a line for everything that is wrong.
    """
    roles = table.roles
    faults = table.faults
    row_numbers = table.features.row_numbers
    if not len(row_numbers):
        faults.raise_any()
        raise DataError("no samples")

    drop = reading.missing == "drop"
    parse = table.features.parse
    y = parse_labels(table.target, row_numbers, roles.target, faults, drop, parse, reading.task)
    if roles.target not in faults.columns:
        faults.add_to_column(roles.target, fault_of_classes(y))

    client = None
    if roles.client is not None:
        client = parse_ids(table.client, row_numbers, roles.client, faults)
    columns = {}
    for column, cells in zip(roles.extra, table.extra, strict=True):
        columns[roles.names[column]] = parse_ids(cells, row_numbers, column, faults, "value")
    x = table.features.table()
    _add_faults_of_features(x, table, reading)
    faults.raise_any()

    arrays = Arrays(x, y, client, columns=columns)
    if drop:
        arrays = _without_blanks(arrays, table.target)
    if not len(arrays.y):
        raise DataError("every sample has a blank")
    return _one_hot(arrays, _described(arrays.x, table), table.features.codes)


def _require_different(names: list[str]) -> None:
    """Refuse columns that have the same name."""
    repeated = [(name, count) for name, count in Counter(names).items() if count > 1]
    problems = []
    for name, count in repeated[:5]:
        number = "two" if count == 2 else count
        problems.append(f"{number} columns are called {name[:40]!a}; give each its own name")
    if problems:
        raise DataError(*problems)


def _suggestion(name: str, names: Sequence[str]) -> str:
    """A column whose name is similar to the requested one, or the first columns."""
    candidates = [column for column in names[:1000] if len(column) < 60]
    if near := nearest(name, candidates):
        return f"did you mean {near!a}?"
    listed = ", ".join(ascii(column[:40]) for column in names[:6])
    if len(names) > 6:
        listed += " ..."
    return f"there are {listed}"


def _add_faults_of_features(x: np.ndarray, table: Table, reading: Reading) -> None:
    """Add infinite numbers, blanks and dates where they are refused, and columns of many texts.

    Args:
      x: the values of the feature columns `[n, columns]`; NaN for blanks.
      table: the table.
      reading: what is decided about its cells.
    """
    faults = table.faults
    columns = table.roles.features
    row_numbers = table.features.row_numbers
    for row, j in np.argwhere(~np.isfinite(x)):
        if np.isinf(x[row, j]):
            faults.add(row_numbers[row], columns[j], f"{x[row, j]} cannot be a feature")
        elif reading.missing == "refuse":
            faults.add(row_numbers[row], columns[j], "blank; write missing: mean, median or drop")

    for column, kind in zip(columns, table.features.kinds, strict=True):
        if kind == "dates" and reading.dates is None:
            name = ascii(table.roles.names[column][:40])
            problem = "dates, which usually say when a row was written and nothing of what it holds"
            remedy = f"write dates: ordinal for days since 1970, or drop: [{name}]"
            faults.add(WHOLE_COLUMN, column, f"{problem}; {remedy}")

    for column, codes in zip(columns, table.features.codes, strict=True):
        if codes is None or len(codes) <= MAX_CATEGORIES:
            continue
        name = ascii(table.roles.names[column][:40])
        problem = f"more than {MAX_CATEGORIES} different texts, too many for one-hot features"
        remedy = f"write drop: [{name}], or client: {name} if it says whose a sample is"
        faults.add(WHOLE_COLUMN, column, f"{problem}; {remedy}")


def _without_blanks(arrays: Arrays, target: Sequence[str]) -> Arrays:
    """Drop samples with a blank among their features `[n, columns]`, or as their label."""
    no_label = np.array([is_blank(cell) for cell in target], bool)
    complete = ~np.isnan(arrays.x).any(1) & ~no_label  # [n]
    columns = arrays.columns or {}
    arrays = arrays._replace(
        x=arrays.x[complete],
        y=arrays.y[complete],
        columns={name: values[complete] for name, values in columns.items()},
    )
    if arrays.client is None:
        return arrays
    return arrays._replace(client=arrays.client[complete])


def _described(x: np.ndarray, table: Table) -> list[TableColumn]:
    """All columns of a table, with the categories that occur in its rows.

    Args:
      x: the values of its feature columns `[n, columns]`: numbers, and codes of texts.
      table: the table.
    """
    features = table.features
    columns = [TableColumn(name) for name in table.roles.names]
    for j, (column, kind) in enumerate(zip(table.roles.features, features.kinds, strict=True)):
        name = table.roles.names[column]
        categories: tuple[str, ...] = ()
        remark = ""
        if kind == "numbers":
            remark = remark_on_numbers(name, x[:, j])
        elif kind == "text":
            codes = features.codes[j] or {}
            present = set(x[:, j].tolist())
            categories = tuple(sorted(text for text, code in codes.items() if code in present))
            remark = remark_on_texts(name, categories, len(x), features.parse)
            if np.isnan(x[:, j]).any():
                categories += (BLANK_CATEGORY,)
        columns[column] = TableColumn(name, kind, categories, remark)
    return columns


def _one_hot(
    arrays: Arrays, columns: Sequence[TableColumn], codes: Sequence[dict[str, int] | None]
) -> Arrays:
    """Replace each column of text by a column for each of its categories: 1 where it occurs.

    Args:
      arrays: samples whose features are numbers, and codes of texts.
      columns: all columns of the table.
      codes: by feature column: text -> code; None where the column holds numbers.
    """
    features = [column for column in columns if column.kind]
    titles = [title for column in features for title in column.titles]
    arrays = arrays._replace(features=tuple(titles), table=tuple(columns))
    if all(column_codes is None for column_codes in codes):
        return arrays

    blocks: list[np.ndarray] = []
    for j, (column, column_codes) in enumerate(zip(features, codes, strict=True)):
        values = arrays.x[:, j : j + 1]  # [n, 1]
        if column_codes is None:
            blocks.append(values)
            continue
        texts = [text for text in column.categories if text in column_codes]
        blocks.append(values == np.array([column_codes[text] for text in texts]))
        if len(texts) < len(column.categories):
            blocks.append(np.isnan(values))
    return arrays._replace(x=np.concatenate(blocks, axis=1, dtype=np.float64))
