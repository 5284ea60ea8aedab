"""The columns of a table -> `Arrays`: roles, one-hot features, blanks."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fedsim.errors import DataError, nearest
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import (
    BLANK,
    MAX_CATEGORIES,
    Feature,
    Parser,
    Task,
    feature_of,
    parse_ids,
    parse_labels,
    parse_number,
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
      cells: by column; of columns without a role, anything.
      row_numbers: the number of the line or row that each row comes from.
      faults: what is wrong so far.
      parse: makes numbers of cells.
      days: the columns of dates whose cells are days already.
    """

    roles: Roles
    cells: Sequence[Any]
    row_numbers: Sequence[int]
    faults: Faults
    parse: Parser = parse_number
    days: Collection[int] = ()


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
    row_numbers = table.row_numbers
    if not len(row_numbers):
        faults.raise_any()
        raise DataError("no samples")

    features = [_feature(column, table, reading) for column in roles.features]
    drop = reading.missing == "drop"
    target = table.cells[roles.target]
    y = parse_labels(target, row_numbers, roles.target, faults, drop, table.parse, reading.task)
    if roles.target not in faults.columns:
        faults.add_to_column(roles.target, fault_of_classes(y))
    client = None
    if roles.client is not None:
        client = parse_ids(table.cells[roles.client], row_numbers, roles.client, faults)
    columns = {}
    for column in roles.extra:
        ids = parse_ids(table.cells[column], row_numbers, column, faults, "value")
        columns[roles.names[column]] = ids
    faults.raise_any()

    if drop:
        complete = np.array([cell.strip() not in BLANK for cell in target], bool)  # [n]
        for feature in features:
            complete &= ~feature.blanks
        if not complete.any():
            raise DataError("every sample has a blank")
        features = [feature._replace(values=feature.values[complete]) for feature in features]
        y = y[complete]
        client = None if client is None else client[complete]
        columns = {name: values[complete] for name, values in columns.items()}

    described = [TableColumn(name) for name in roles.names]
    for column, feature in zip(roles.features, features, strict=True):
        described[column] = _described(roles.names[column], feature, table.parse)
    used = [described[column] for column in roles.features]
    return Arrays(
        x=np.concatenate(list(map(_block, features, used)), axis=1, dtype=np.float64),
        y=y,
        client=client,
        features=tuple(title for column in used for title in column.titles),
        columns=columns,
        table=tuple(described),
    )


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


def _feature(column: int, table: Table, reading: Reading) -> Feature:
    """A feature column; infinite numbers, refused blanks and dates, and many texts are faults."""
    faults = table.faults
    numbers = table.row_numbers
    name = ascii(table.roles.names[column][:40])
    feature = feature_of(table.cells[column], numbers, column, faults, table.parse)
    if column in table.days:
        feature = feature._replace(kind="dates")
    blanks = feature.blanks
    if reading.missing == "refuse":
        for row in np.flatnonzero(blanks).tolist():
            faults.add(numbers[row], column, "blank; write missing: mean, median or drop")
    if feature.kind == "text":
        if len(set(feature.values[~blanks])) > MAX_CATEGORIES:
            problem = f"more than {MAX_CATEGORIES} different texts, too many for one-hot features"
            remedy = f"write drop: [{name}], or client: {name} if it says whose a sample is"
            faults.add(WHOLE_COLUMN, column, f"{problem}; {remedy}")
        return feature
    for row in np.flatnonzero(np.isinf(feature.values)).tolist():
        faults.add(numbers[row], column, f"{feature.values[row]} cannot be a feature")
    if feature.kind == "dates" and reading.dates is None:
        problem = "dates, which usually say when a row was written and nothing of what it holds"
        remedy = f"write dates: ordinal for days since 1970, or drop: [{name}]"
        faults.add(WHOLE_COLUMN, column, f"{problem}; {remedy}")
    return feature


def _described(name: str, feature: Feature, parse: Parser) -> TableColumn:
    """A feature column, with the categories that occur in its rows."""
    if feature.kind == "dates":
        return TableColumn(name, "dates")
    if feature.kind == "numbers":
        return TableColumn(name, "numbers", remark=remark_on_numbers(name, feature.values))
    texts = set(feature.values)
    categories = tuple(sorted(text for text in texts if text is not None))
    remark = remark_on_texts(name, categories, len(feature.values), parse)
    if None in texts:
        categories += (BLANK_CATEGORY,)
    return TableColumn(name, "text", categories, remark)


def _block(feature: Feature, column: TableColumn) -> np.ndarray:
    """A feature column as features `[n, F]`: of text, one for each category, 1 where it occurs."""
    if feature.kind != "text":
        return feature.values[:, None]
    codes = {text: code for code, text in enumerate(column.categories)}
    blank = len(codes) - 1  # the last category, where there are blanks
    of_rows = np.array([blank if text is None else codes[text] for text in feature.values])
    return of_rows[:, None] == np.arange(len(codes))
