"""Rows of Arrow tables, with their writer's metadata -> `Arrays`; imports pyarrow."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fedsim.errors import DataError
from fedsim.sources.arrays import NO_LABEL, Arrays, TableColumn, with_test_set
from fedsim.sources.arrow import Shards, rows_of
from fedsim.sources.arrow_columns import (
    is_nested,
    is_scalar,
    lists,
    plain,
)
from fedsim.sources.arrow_roles import Roles
from fedsim.sources.columns import of_frame
from fedsim.sources.pictures import SCALE, decoded
from fedsim.sources.table_keys import TableKeys
from fedsim.sources.tokenizer import Texts, Tokenizer, samples_of

UNLABELLED = -1  # the class that `datasets` gives a row without a label
IGNORED = -100  # the label that `datasets` gives a token without one
ROW = "row"  # the number of a row, among what comes along with a table


def of_texts(
    splits: dict[str, Shards], roles: dict[str, str], made: Tokenizer, length: int
) -> Arrays:
    """Return texts as sequences with the next token at every position, or pairs as sequences.

    The splits are the one for training and, if there is one, that for testing; `roles` has their
    columns, as `text_roles` returns them.
    """
    parts = []
    for split, shards in splits.items():
        table = rows_of(shards, list(roles.values()))
        where = f"split {split[:60]!a}"
        columns = {}
        for role, name in roles.items():
            column = table.column(name)
            if role == "client":
                columns[role] = _ids(column, name)
            elif column.null_count:
                blanks = f"{column.null_count} rows have no text"
                raise DataError(f"{where}, column {name[:60]!a}: {blanks}")
            else:
                columns[role] = column.to_pylist()
        arrays = samples_of(Texts(**columns), made, length)
        if not len(arrays.x):
            raise DataError(f"{where}: no text of two tokens or more")
        parts.append(arrays)

    train, *tests = parts
    for test in tests:
        train = train._replace(x_test=test.x, y_test=test.y, client_test=test.client)
    return train


def of_rows(
    splits: dict[str, Shards],
    schema: Any,
    roles: Roles,
    keys: TableKeys,
    size: list[int] | None,
    channels: int | None,
) -> Arrays:
    """Return samples of images, of lists of numbers, or of rows by the rules of tables.

    The splits are the one for training and, if there is one, that for testing.

    Raises:
      DataError: for columns that cannot be learned from; of tables, naming rows: those of the test
        split are counted after the others.
    """
    names = []
    for name in schema.names:
        is_large = roles.form != "table" and name in roles.features
        if not is_large and (name in roles.used or is_scalar(schema.field(name).type)):
            names.append(name)
    tables = {split: rows_of(shards, names) for split, shards in splits.items()}
    train = next(iter(tables.values()))
    columns = _extra_columns(train, roles)
    if roles.form == "table":
        arrays, train_rows = _of_table(tables, roles, keys)
        others = [TableColumn(name) for name in schema.names if name not in roles.used]
        columns = {name: values[train_rows] for name, values in columns.items()}
        arrays = arrays._replace(table=[*(arrays.table or ()), *others])
        n = len(train_rows)
    else:
        arrays = _of_one_column(splits, tables, roles, size, channels)
        n = train.num_rows
    arrays = arrays._replace(labels=roles.classes.get(roles.target), columns=columns)
    return with_test_set(arrays, n) if len(splits) > 1 else arrays


def _of_one_column(
    splits: dict[str, Shards],
    tables: dict[str, Any],
    roles: Roles,
    size: list[int] | None,
    channels: int | None,
) -> Arrays:
    """All samples whose features are one column of images or lists, the test split behind."""
    column = roles.features[0]
    shards = {name: path for files in splits.values() for name, path in files.items()}
    scale = None
    if roles.form == "images":
        x = decoded(lambda: _encoded_images(shards, column), size, channels)
        scale = SCALE
    else:
        parts = [rows_of({name: path}, [column]) for name, path in shards.items()]
        x = np.concatenate([lists(column, part.column(0).combine_chunks()) for part in parts])
    labels = [_labels(table.column(roles.target), roles, split) for split, table in tables.items()]
    client = None
    if roles.client is not None:
        ids = [_ids(table.column(roles.client), roles.client) for table in tables.values()]
        client = np.concatenate(ids)
    return Arrays(x, np.concatenate(labels), client, scale=scale)


def _of_table(tables: dict[str, Any], roles: Roles, keys: TableKeys) -> tuple[Arrays, np.ndarray]:
    """All samples of a table, the test split behind, and which training rows are among them."""
    if roles.target in roles.classes:
        for split, table in tables.items():
            _labels(table.column(roles.target), roles, split)
    table = pa.concat_tables(tables.values())
    for name in set(roles.features) & roles.classes.keys():
        texts = _class_texts(table.column(name), roles.classes[name])
        index = table.column_names.index(name)
        table = table.set_column(index, name, pa.array(texts, pa.string()))
    used = [name for name in table.column_names if name in roles.used]
    frame = table.select(used).to_pandas()
    row = np.arange(len(frame))
    arrays = of_frame(frame, keys, beside={ROW: row})
    kept = (arrays.columns or {})[ROW]
    return arrays, kept[kept < next(iter(tables.values())).num_rows]


def _extra_columns(train: Any, roles: Roles) -> dict[str, np.ndarray]:
    """The columns of the training rows that have no role, except for long texts."""
    columns = {}
    for name in train.column_names:
        if name not in roles.used:
            column = train.column(name)
            if name in roles.classes:
                columns[name] = np.array(_class_texts(column, roles.classes[name]), str)
                continue
            with contextlib.suppress(DataError):
                columns[name] = plain(column)
    return columns


def _class_texts(column: Any, names: list[str]) -> list[str]:
    """The names of classes `[n]`; blanks are empty."""
    by_code = dict(enumerate(names))
    return [by_code.get(code, "") for code in column.to_pylist()]


def _encoded_images(shards: Shards, column: str) -> Iterator[tuple[str, bytes]]:
    """The images of a column as they are stored, with their names in errors."""
    for shard, path in shards.items():
        values = rows_of({shard: path}, [column]).column(0).combine_chunks()
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


def _ids(column: Any, name: str) -> np.ndarray:
    where = f"client: column {name[:60]!a}"
    if column.null_count:
        raise DataError(f"{where} holds blanks")
    if not is_scalar(column.type):
        raise DataError(f"{where} holds {column.type}, which cannot be ids")
    return _plain(column, where)


def _plain(column: Any, where: str) -> np.ndarray:
    try:
        return plain(column)
    except DataError as error:
        raise error.with_prefix(where) from None
