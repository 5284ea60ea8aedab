"""Rows of Arrow tables, with their writer's metadata -> `Arrays`; imports pyarrow."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from fedsim.errors import DataError, did_you_mean
from fedsim.sources.arrays import NO_LABEL, Arrays, with_test_set
from fedsim.sources.arrow import schema_of, table_of
from fedsim.sources.arrow_columns import (
    extra_column,
    is_image,
    is_nested,
    is_numeric,
    is_scalar,
    lists,
    plain,
)
from fedsim.sources.cells import BLANK
from fedsim.sources.columns import Reading, of_frame
from fedsim.sources.names import require_sound
from fedsim.sources.pictures import SCALE, decoded
from fedsim.sources.remembered import TableColumn

UNLABELLED = -1  # the class that `datasets` gives a row without a label
IGNORED = -100  # the label that `datasets` gives a token without one
Shards = dict[str, Path]  # the files of a split, or of several, by name


class Roles(NamedTuple):
    """The role of each column.

    Attributes:
      target: the column of the labels.
      features: the columns of the features.
      client: the column of the ids, if there is one.
      form: what the features are: one column of images, one of lists, or columns of a table.
      classes: the names of the classes of every ClassLabel column.
    """

    target: str
    features: list[str]
    client: str | None
    form: Literal["images", "lists", "table"]
    classes: dict[str, list[str]]

    @property
    def used(self) -> set[str | None]:
        """The columns that have a role."""
        return {*self.features, self.target, self.client}


def one_schema(shards: Shards) -> Any:
    """Return the columns that all files have.

    Raises:
      DataError: for files that differ.
    """
    schema = None
    for name, path in shards.items():
        columns = schema_of(path)
        if len(set(columns.names)) < len(columns.names):
            raise DataError(f"{name}: two columns have the same name")
        if schema is not None and not schema.equals(columns):
            raise DataError(f"{name}: other columns than in {next(iter(shards))}")
        schema = columns
    return schema


def roles_of(
    schema: Any,
    declarations: dict[str, Any],
    target: str | None,
    features: list[str],
    client: str | None,
) -> Roles:
    """Assign roles to the columns of a set.

    Args:
      schema: the columns.
      declarations: what the writer declared about them, by name.
      target: the column of the labels; None: the only ClassLabel column, else `label`.
      features: the feature columns; empty: the image column, else all columns of numbers.
      client: the column of the ids; None: `client`, if there is such a column.

    Raises:
      DataError: for columns that do not exist, and where the user has to choose; all at once.
    """
    names = schema.names
    classes = _class_names(declarations)
    images = [n for n in names if is_image(schema.field(n).type, declarations.get(n, {}))]

    problems = []
    candidates = [name for name in names if name in classes]
    label = target or (candidates[0] if len(candidates) == 1 else "label")
    if target is None and len(candidates) > 1 and "label" not in candidates:
        listed = ", ".join(candidates)[:120]
        problems.append(f"target: {listed} hold classes; write target: and one of them")
    if client is None and "client" in names and label != "client":
        client = "client"

    requested = [("target", label), ("client", client)]
    requested += [("features", name) for name in features]
    for key, name in requested:
        if name is not None and name not in names and not problems:
            problems.append(f"{key}: no column {name[:60]!a}{did_you_mean(name, names)}")

    if not features and images:
        features = images
        if len(images) > 1:
            listed = ", ".join(images)[:120]
            problems.append(f"features: {listed} hold images; write features: [{images[0]}]")
    elif not features:
        excluded = {label, client, *classes}
        features = [n for n in names if n not in excluded and is_numeric(schema.field(n).type)]
        if not features and not problems:
            listed = ", ".join(f"{name} ({schema.field(name).type})" for name in names)[:160]
            problems.append(f"features: no column of images or numbers; there are {listed}")
    for key, name in (("target", label), ("client", client)):
        if name in features:
            problems.append(f"features: column {name[:60]!a} is the {key}")
    if problems:
        raise DataError(*problems)

    form = "table"
    if len(features) == 1 and features[0] in images:
        form = "images"
    elif len(features) == 1 and is_nested(schema.field(features[0]).type):
        form = "lists"
    return Roles(label, features, client, form, classes)


def of_one_column(
    splits: dict[str, Shards],
    schema: Any,
    roles: Roles,
    size: list[int] | None,
    channels: int | None,
) -> Arrays:
    """Return samples whose features are one column: images, or lists of numbers.

    Args:
      splits: the files of the training split, and of the test split if there is one.
      schema: the columns of all files.
      roles: the roles of the columns.
      size: the size that images are resized to, if any.
      channels: the channels of images.

    Raises:
      DataError: for columns that cannot be learned from.
    """
    column = roles.features[0]
    names = []
    for name in schema.names:
        if name != column and (name == roles.target or is_scalar(schema.field(name).type)):
            names.append(name)
    tables = {split: table_of_shards(shards, names) for split, shards in splits.items()}

    all_shards = {name: path for shards in splits.values() for name, path in shards.items()}
    if roles.form == "images":
        x = decoded(lambda: _encoded_images(all_shards, column), size, channels)
    else:
        x = _lists(all_shards, column)

    labels = []
    for split, table in tables.items():
        labels.append(_labels(table.column(roles.target), roles, split))
    ids = []
    if roles.client is not None:
        for table in tables.values():
            ids.append(client_ids(table.column(roles.client), roles.client))

    train = next(iter(tables.values()))
    arrays = Arrays(
        x=x,
        y=np.concatenate(labels),
        client=np.concatenate(ids) if ids else None,
        scale=SCALE if roles.form == "images" else None,
        labels=roles.classes.get(roles.target),
        columns=_extra_columns(train, roles),
    )
    if len(splits) > 1:
        return with_test_set(arrays, train.num_rows)
    return arrays


def of_table(splits: dict[str, Shards], schema: Any, roles: Roles, reading: Reading) -> Arrays:
    """Return samples that are rows of numbers, dates and texts, by the rules of tables.

    Args:
      splits: the files of the training split, and of the test split if there is one.
      schema: the columns of all files.
      roles: the roles of the columns.
      reading: what is decided about cells.

    Raises:
      DataError: naming columns, and rows; rows of the test split are counted after the others.
    """
    names = []
    for name in map(str, schema.names):
        if name in roles.used or is_scalar(schema.field(name).type):
            names.append(name)
    tables = {split: table_of_shards(shards, names) for split, shards in splits.items()}
    train = next(iter(tables.values()))
    train_rows = train.num_rows
    columns = _extra_columns(train, roles)
    classes = roles.classes.get(roles.target)
    if classes is not None:
        for split, table in tables.items():
            _labels(table.column(roles.target), roles, split)

    table = pa.concat_tables(tables.values())
    for name in set(roles.features) & roles.classes.keys():
        texts = extra_column(table.column(name), roles.classes[name]).tolist()
        index = table.column_names.index(name)
        table = table.set_column(index, name, pa.array(texts, pa.string()))
    table = table.select([name for name in names if name in roles.used])
    frame = table.to_pandas()

    if reading.missing == "drop":
        complete = ~(frame.isna() | frame.isin(BLANK)).any(axis=1).to_numpy()  # [n]
        complete_train = complete[:train_rows]
        columns = {name: values[complete_train] for name, values in columns.items()}
        target = frame[roles.target]
        beside_blanks = target.dtype.kind == "f" and target.isna().any()
        if beside_blanks and (target.dropna() % 1 == 0).all():
            frame[roles.target] = target.astype("Int64")  # the blanks are gone from here on
        frame = frame[complete]
        train_rows = int(complete_train.sum())
    arrays = of_frame(frame, roles.target, roles.client, *reading)
    others = [TableColumn(str(name)) for name in schema.names if name not in roles.used]
    known = [*(arrays.table or ()), *others]
    arrays = arrays._replace(labels=classes, columns=columns, table=known)
    if len(splits) > 1:
        return with_test_set(arrays, train_rows)
    return arrays


def _class_names(declarations: dict[str, Any]) -> dict[str, list[str]]:
    """The names of the classes of every column that is declared to hold classes."""
    classes = {}
    for column, declaration in declarations.items():
        names = declaration.get("names")
        if isinstance(names, list):
            classes[column] = list(map(str, names))
            title = f"names of the classes of {column[:60]!a}"
            require_sound(title, classes[column], "class")
    return classes


def table_of_shards(shards: Shards, names: list[str]) -> Any:
    """Return some columns of a split, without the metadata of pandas."""
    tables = [table_of(path, names).replace_schema_metadata(None) for path in shards.values()]
    return pa.concat_tables(tables)


def _extra_columns(train: Any, roles: Roles) -> dict[str, np.ndarray]:
    """The columns of the training rows that have no role, except for long texts."""
    columns = {}
    for name in train.column_names:
        if name not in roles.used:
            with contextlib.suppress(DataError):
                columns[name] = extra_column(train.column(name), roles.classes.get(name))
    return columns


def _lists(shards: Shards, column: str) -> np.ndarray:
    """The lists of a column as an array `[n, ...]`."""
    tables = [table_of(path, [column]) for path in shards.values()]
    return np.concatenate([lists(column, table.column(0).combine_chunks()) for table in tables])


def _encoded_images(shards: Shards, column: str) -> Iterator[tuple[str, bytes]]:
    """The images of a column as they are stored.

    Raises:
      DataError: for an image that is in another file.
    """
    for shard, path in shards.items():
        values = table_of(path, [column]).column(0).combine_chunks()
        values = getattr(values, "storage", values)
        if pa.types.is_struct(values.type):
            values = values.flatten()[values.type.get_field_index("bytes")]
        for row, image in enumerate(values):
            name = f"{shard}: row {row} of {column[:60]!a}"
            if not image.is_valid:
                remedy = "if it is in a separate file, ds.save_to_disk(FOLDER) includes it"
                raise DataError(f"{name}: no image there; {remedy}")
            yield name, image.as_py()


def _labels(column: Any, roles: Roles, split: str) -> np.ndarray:
    """Classes or targets `[n]`, or the labels of tokens `[n, T]`."""
    if is_nested(column.type):
        y = lists(roles.target, column.combine_chunks())
        if y.dtype.kind not in "iu":
            return y
        return np.where(y == IGNORED, NO_LABEL, y)

    where = f"split {split[:60]!a}, column {roles.target[:60]!a}"
    if column.null_count:
        raise DataError(f"{where}: {column.null_count} rows have no label")
    if not is_scalar(column.type):
        raise DataError(f"{where}: holds {column.type}, which cannot be labels")
    y = _plain(column, where)
    if y.dtype.kind in "iu" and len(y) and y.min() == UNLABELLED:
        problem = f"row {int(y.argmin())} has the label {UNLABELLED}, which means none"
        remedy = "if the labels of a test split are secret, name another as test_split"
        raise DataError(f"{where}: {problem}; {remedy}")
    return y


def client_ids(column: Any, name: str) -> np.ndarray:
    where = f"client: column {name[:60]!a}"
    if column.null_count:
        raise DataError(f"{where} holds blanks")
    if not is_scalar(column.type):
        raise DataError(f"{where} holds {column.type}, which cannot be ids")
    return _plain(column, where)


def _plain(column: Any, where: str) -> np.ndarray:
    """Numbers or names `[n]`; errors say where."""
    try:
        return plain(column)
    except DataError as error:
        raise error.with_prefix(where) from None
