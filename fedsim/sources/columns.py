"""Tables, as pandas has them -> `Arrays`: roles of columns, one-hot features, blanks."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fedsim.errors import DataError, nearest
from fedsim.kinds.targets import Target, columns_of, has_times
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import (
    MAX_CATEGORIES,
    Cells,
    Column,
    Feature,
    Parser,
    Task,
    are_blank,
    cells_of,
    feature_of,
    parse_ids,
    parse_labels,
    parse_number,
    texts_of,
)
from fedsim.sources.classes import fault_of_classes
from fedsim.sources.faults import Faults
from fedsim.sources.remembered import (
    BLANK_CATEGORY,
    TableColumn,
    remark_on_numbers,
    remark_on_texts,
)

Missing = Literal["refuse", "mean", "median", "constant", "drop"]
Statistics = Literal["all", "client"]
Dates = Literal["ordinal"] | None
IDS = re.compile(r"id|.+[_ ]id", re.IGNORECASE)  # names of columns that say which row it is
LEFT_OUT = "is left out, as the id that its name says; call it otherwise to make it a feature"


class Roles(NamedTuple):
    """The role of each column of a table, by its position among all columns."""

    names: list[str]  # of all columns
    target: int
    others: list[int]  # further columns of the target: of events, or of labels
    client: int | None
    features: list[int]
    extra: list[int]  # columns for partitions
    ids: list[int]  # columns that are left out, as ids by their names


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


def assign_roles(
    names: Sequence[str],
    target: Target,
    client: str | None,
    drop: Sequence[str],
    columns: Sequence[str] = (),
) -> Roles:
    """Assign roles to the columns of a table.

    Args:
      names: the names of all columns.
      target: the column of the labels, those of several labels, or those of times and events.
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

    targets = columns_of(target)
    roles_of_target = ["target"] * len(targets)
    if has_times(target):
        roles_of_target = ["target.time", "target.event"]
    requested = list(zip(roles_of_target, targets, strict=True))
    if client is not None:
        requested.append(("client", client))
    requested += [("drop", name) for name in drop]
    requested += [("column", name) for name in columns]

    problems = []
    for role, name in requested:
        if name not in names:
            problems.append(f"{role}: no column {name[:40]!a}; {_suggestion(name, names)}")
    if client is None and "client" in names and "client" not in (*targets, *drop):
        client = "client"
    if client in targets:
        problems.append(f"column {str(client)[:40]!a} cannot be both target and client")
    repeated = [name for name, count in Counter(targets).items() if count > 1]
    for name in repeated:
        twice = "cannot be both time and event" if has_times(target) else "is named twice as target"
        problems.append(f"column {name[:40]!a} {twice}")
    for role, name in requested:
        if role != "drop" and name in drop:
            problems.append(f"drop: column {name[:40]!a} is the {role}")

    used = (*targets, client, *drop, *columns)
    unused = [column for column, name in enumerate(names) if name not in used]
    ids = [column for column in unused if IDS.fullmatch(names[column])]
    features = [column for column in unused if column not in ids]
    if not features and not problems:
        problems.append(f"no feature columns besides {targets[0][:40]!a}")
    if problems:
        raise DataError(*problems)
    return Roles(
        names=names,
        target=names.index(targets[0]),
        others=[names.index(name) for name in targets[1:]],
        client=None if client is None else names.index(client),
        features=features,
        extra=[names.index(name) for name in dict.fromkeys(columns)],
        ids=ids,
    )


def of_frame(
    frame: Any,
    target: Target = "y",
    client: str | None = None,
    missing: Missing = "refuse",
    dates: Dates = None,
    task: Task = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] = (),
    parse: Parser = parse_number,
    row_numbers: Sequence[int] | None = None,
    row_name: Callable[[int], str] = "row {}".format,
    beside: Mapping[str, np.ndarray] = {},
) -> Arrays:
    """Return the samples of a pandas DataFrame, one for each row; its index does not count.

    Columns of numbers and truth values are features as they are; timestamps are days since
    1970-01-01 UTC (UTC where they have no time zone), durations become days; all other columns are
    read as text. In the target, whole numbers are classes and floats are regression targets (whole
    floats next to blanks are classes: pandas has no other way to hold them).

    With `mean`, `median` and `constant`, blanks among numbers stay NaN: they are filled in when the
    training samples are known. Blanks in a column of text become a category of their own then.
    Columns called `id`, or with a name that ends in `_id`, are left out, with a remark.

    Args:
      frame: the DataFrame.
      target: the column of the labels, or those of times and events.
      client: the column of the ids; None: `client`, if there is such a column.
      missing: what happens to blanks.
      dates: whether dates may be features.
      task: what the target is, whatever its numbers look like.
      drop: columns that are left out.
      columns: columns for partitions, which are not features.
      parse: makes numbers of cells that are texts.
      row_numbers: the numbers of the rows; None: they are counted from 0.
      row_name: what errors call the row of a number.
      beside: further columns for partitions `[n]`, as they are.

    Raises:
      DataError: with a line for everything that is wrong, naming rows and columns.
    """
    names = [str(name).strip() for name in frame.columns]
    roles = assign_roles(names, target, client, drop, columns)
    if not len(frame):
        raise DataError("no samples")
    faults = Faults(names, row_name)
    rows = range(len(frame)) if row_numbers is None else row_numbers

    def column_of(position: int, cells: Cells) -> Column:
        return Column(cells, rows, position, faults, parse)

    features = []
    for position in roles.features:
        values = frame.iloc[:, position]
        feature = feature_of(column_of(position, cells_of(values)))
        if values.dtype.kind == "M":
            feature = feature._replace(kind="dates")
        _check(feature, column_of(position, []), missing, dates)
        features.append(feature)

    labels = column_of(roles.target, texts_of(frame.iloc[:, roles.target]))
    columns_of_labels = [labels]
    if isinstance(target, str):
        y = parse_labels(labels, missing == "drop", task)
        if roles.target not in faults.columns:
            faults.add_to_column(roles.target, fault_of_classes(y))
    else:
        positions = [roles.target, *roles.others]
        columns_of_labels = [
            column_of(position, _as_digits(texts_of(frame.iloc[:, position])))
            for position in positions
        ]
        numbers = [parse_labels(c, missing == "drop", "regression") for c in columns_of_labels]
        y = np.stack(numbers, axis=1)  # faults are raised below
    ids = None
    if roles.client is not None:
        ids = parse_ids(column_of(roles.client, texts_of(frame.iloc[:, roles.client])))
    extra: dict[str, np.ndarray] = {}
    for position in roles.extra:
        column = column_of(position, texts_of(frame.iloc[:, position]))
        extra[names[position]] = parse_ids(column, "value")
    faults.raise_any()
    extra |= beside

    if missing == "drop":
        complete = np.ones(len(y), bool)
        for column in columns_of_labels:
            complete &= ~are_blank(column.texts)
        for feature in features:
            complete &= ~feature.blanks
        if not complete.any():
            raise DataError("every sample has a blank")
        features = [feature._replace(values=feature.values[complete]) for feature in features]
        y = y[complete]
        ids = None if ids is None else ids[complete]
        extra = {name: values[complete] for name, values in extra.items()}

    described = [TableColumn(name) for name in names]
    for position, feature in zip(roles.features, features, strict=True):
        described[position] = _described(names[position], feature, parse)
    used = [described[position] for position in roles.features]
    return Arrays(
        x=np.concatenate(list(map(_block, features, used)), axis=1, dtype=np.float64),
        y=y,
        client=ids,
        features=tuple(title for column in used for title in column.titles),
        columns=extra,
        table=tuple(described),
        remarks=tuple(f"column {names[position][:40]!a} {LEFT_OUT}" for position in roles.ids),
    )


def _as_digits(cells: list[str]) -> list[str]:
    """Cells with truth values as 0 and 1."""
    digits = {"true": "1", "false": "0"}
    return [digits.get(cell.lower(), cell) for cell in cells]


def column_in(frame: Any, name: str, faults: Faults, role: str = "") -> Column:
    """Return a column of a DataFrame of texts, whose index numbers the rows.

    Args:
      frame: the DataFrame.
      name: the column's name.
      faults: collects what is wrong with it.
      role: what the column is for; errors begin with it.

    Raises:
      DataError: where there is no such column, or several.
    """
    names = list(frame.columns)
    if names.count(name) == 1:
        return Column(texts_of(frame[name]), frame.index, names.index(name), faults)
    title = f"{role}: " if role else ""
    if name in names:
        problem = f"several columns are called {name[:40]!a}; give each its own name"
    else:
        problem = f"no column {name[:40]!a}; {_suggestion(name, names)}"
    raise DataError(f"{title}{problem}")


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


def _check(feature: Feature, column: Column, missing: Missing, dates: Dates) -> None:
    """Add what is wrong with a feature: infinite numbers, blanks, dates, and many texts."""
    faults = column.faults
    name = ascii(faults.names[column.position][:40])
    blanks = feature.blanks
    if missing == "refuse":
        column.add_all(blanks, "blank; write missing: mean, median or drop")
    if feature.kind == "text":
        if len(set(feature.values[~blanks])) > MAX_CATEGORIES:
            problem = f"more than {MAX_CATEGORIES} different texts, too many for one-hot features"
            remedy = f"write drop: [{name}], or client: {name} if it says whose a sample is"
            faults.add_to_column(column.position, f"{problem}; {remedy}")
        return
    for row in np.flatnonzero(np.isinf(feature.values)).tolist():
        column.add(row, f"{feature.values[row]} cannot be a feature")
    if feature.kind == "dates" and dates is None:
        problem = "dates, which usually say when a row was written and nothing of what it holds"
        remedy = f"write dates: ordinal for days since 1970, or drop: [{name}]"
        faults.add_to_column(column.position, f"{problem}; {remedy}")


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
