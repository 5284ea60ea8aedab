"""Tables, as pandas has them -> `Arrays`: roles of columns, one-hot features, blanks."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.errors import DataError, nearest
from fedsim.kinds.targets import columns_of, has_times
from fedsim.sources.arrays import BLANK_CATEGORY, Arrays, TableColumn
from fedsim.sources.cells import (
    MAX_CATEGORIES,
    Column,
    Decimal,
    Feature,
    cells_of,
    feature_of,
    parse_ids,
    parse_labels,
    texts_of,
)
from fedsim.sources.classes import fault_of_classes
from fedsim.sources.faults import Faults
from fedsim.sources.table_keys import TableKeys

IDS = re.compile(r"id|.+[_ ]id", re.IGNORECASE)  # names of columns that say which row it is
LEFT_OUT = "is left out, as the id that its name says; call it otherwise to make it a feature"
DIGITS = {"true": "1", "false": "0"}  # of truth values


class Roles(NamedTuple):
    """The role of each column of a table, by its position among all columns."""

    names: list[str]  # of all columns
    target: int
    others: list[int]  # further columns of the target: of events, or of labels
    client: int | None
    features: list[int]
    extra: list[int]  # columns for partitions
    ids: list[int]  # columns that are left out, as ids by their names


def assign_roles(names: Sequence[str], keys: TableKeys) -> Roles:
    """Assign roles to the columns of a table.

    Raises:
      DataError: naming all columns that do not exist or occur twice; for a table without features.
    """
    names = list(names)
    if not names:
        raise DataError("empty: expected a header with column names")
    _require_different(names)

    client = keys.client
    targets = columns_of(keys.target)
    roles_of_target = ["target"] * len(targets)
    if has_times(keys.target):
        roles_of_target = ["target.time", "target.event"]
    requested = list(zip(roles_of_target, targets, strict=True))
    if client is not None:
        requested.append(("client", client))
    requested += [("drop", name) for name in keys.drop]
    requested += [("column", name) for name in keys.columns]

    problems = []
    for role, name in requested:
        if name not in names:
            problems.append(f"{role}: no column {name[:40]!a}; {_suggestion(name, names)}")
    if client is None and "client" in names and "client" not in (*targets, *keys.drop):
        client = "client"
    if client in targets:
        problems.append(f"column {str(client)[:40]!a} cannot be both target and client")
    repeated = [name for name, count in Counter(targets).items() if count > 1]
    for name in repeated:
        twice = (
            "cannot be both time and event"
            if has_times(keys.target)
            else "is named twice as target"
        )
        problems.append(f"column {name[:40]!a} {twice}")
    for role, name in requested:
        if role != "drop" and name in keys.drop:
            problems.append(f"drop: column {name[:40]!a} is the {role}")

    used = (*targets, client, *keys.drop, *keys.columns)
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
        extra=[names.index(name) for name in dict.fromkeys(keys.columns)],
        ids=ids,
    )


def of_frame(
    frame: Any,
    keys: TableKeys = TableKeys(),  # noqa: B008 (never changed)
    decimal: Decimal = ".",
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
      keys: what a scenario decides about it.
      decimal: the decimal separator of numbers that are texts.
      row_name: what errors call a row, counted from 0.
      beside: further columns for partitions `[n]`, as they are.

    Raises:
      DataError: with a line for everything that is wrong, naming rows and columns.
    """
    names = [str(name).strip() for name in frame.columns]
    roles = assign_roles(names, keys)
    if not len(frame):
        raise DataError("no samples")
    faults = Faults(names, row_name)

    def column_of(position: int, cells: Any) -> Column:
        return Column(cells, position, faults, decimal)

    def text_column(position: int) -> Column:
        return column_of(position, texts_of(frame.iloc[:, position]))

    features = []
    for position in roles.features:
        values = frame.iloc[:, position]
        feature = feature_of(column_of(position, cells_of(values)))
        if values.dtype.kind == "M":
            feature = feature._replace(kind="dates")
        _check(feature, position, faults, keys)
        features.append(feature)

    targets = [text_column(position) for position in (roles.target, *roles.others)]
    y = _labels(targets, keys)
    ids = None if roles.client is None else parse_ids(text_column(roles.client))
    extra = {names[p]: parse_ids(text_column(p), "value") for p in roles.extra}
    faults.raise_any()
    extra |= beside

    if keys.missing == "drop":
        blanks = [*(column.blanks for column in targets), *(each.blanks for each in features)]
        complete = ~np.any(blanks, axis=0)
        if not complete.any():
            raise DataError("every sample has a blank")
        features = [feature._replace(values=feature.values[complete]) for feature in features]
        y = y[complete]
        ids = None if ids is None else ids[complete]
        extra = {name: values[complete] for name, values in extra.items()}

    described = [TableColumn(name) for name in names]
    for position, feature in zip(roles.features, features, strict=True):
        described[position] = _described(names[position], feature)
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


def _labels(columns: list[Column], keys: TableKeys) -> np.ndarray:
    """The labels `[n]`; several, or times and events, `[n, columns]`."""
    drop = keys.missing == "drop"
    if isinstance(keys.target, str):
        (column,) = columns
        y = parse_labels(column, drop, keys.task)
        if not column.faults.counts[column.position]:
            column.faults.add_to_column(column.position, fault_of_classes(y))
        return y
    parts = []
    for column in columns:
        digits = column.cells.map(lambda cell: DIGITS.get(cell.lower(), cell))
        parts.append(parse_labels(column._replace(cells=digits), drop, "regression"))
    return np.stack(parts, axis=1)  # faults are raised later


def column_in(frame: Any, name: str, faults: Faults, role: str = "") -> Column:
    """Return a column of a DataFrame of texts; errors begin with its role."""
    names = list(frame.columns)
    if names.count(name) == 1:
        return Column(texts_of(frame[name]), names.index(name), faults)
    title = f"{role}: " if role else ""
    if name in names:
        problem = f"several columns are called {name[:40]!a}; give each its own name"
    else:
        problem = f"no column {name[:40]!a}; {_suggestion(name, names)}"
    raise DataError(f"{title}{problem}")


def _require_different(names: list[str]) -> None:
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


def _check(feature: Feature, position: int, faults: Faults, keys: TableKeys) -> None:
    """Add what is wrong with a feature: infinite numbers, blanks, dates, and many texts."""
    name = ascii(faults.names[position][:40])
    blanks = feature.blanks
    if keys.missing == "refuse":
        faults.add(position, blanks, "blank; write missing: mean, median or drop")
    if feature.kind == "text":
        if len(set(feature.values[~blanks])) > MAX_CATEGORIES:
            problem = f"more than {MAX_CATEGORIES} different texts, too many for one-hot features"
            remedy = f"write drop: [{name}], or client: {name} if it says whose a sample is"
            faults.add_to_column(position, f"{problem}; {remedy}")
        return
    values = feature.values
    faults.add(position, np.isinf(values), lambda row: f"{values[row]} cannot be a feature")
    if feature.kind == "dates" and keys.dates is None:
        problem = "dates, which usually say when a row was written and nothing of what it holds"
        remedy = f"write dates: ordinal for days since 1970, or drop: [{name}]"
        faults.add_to_column(position, f"{problem}; {remedy}")


def _described(name: str, feature: Feature) -> TableColumn:
    """A feature column, with the categories that occur in its rows."""
    if feature.kind != "text":
        return TableColumn(name, feature.kind)
    texts = set(feature.values)
    categories = tuple(sorted(text for text in texts if text is not None))
    if None in texts:
        categories += (BLANK_CATEGORY,)
    return TableColumn(name, "text", categories)


def _block(feature: Feature, column: TableColumn) -> np.ndarray:
    """A feature column as features `[n, F]`: of text, one for each category, 1 where it occurs."""
    if feature.kind != "text":
        return feature.values[:, None]
    texts = np.where(feature.blanks, BLANK_CATEGORY, feature.values)
    return texts[:, None] == np.array(column.categories, object)
