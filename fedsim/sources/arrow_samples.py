"""Rows of Arrow tables, with what their writer said about the columns -> `Arrays`. Imported where pyarrow is there."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fedsim.errors import DataError, did_you_mean
from fedsim.sources.arrays import Arrays
from fedsim.sources.arrow import batches, schema_of
from fedsim.sources.arrow_columns import (
    is_image,
    is_nested,
    is_numeric,
    is_scalar,
    lists,
    plain,
    require_sound_texts,
    spare,
)
from fedsim.sources.cells import BLANK
from fedsim.sources.columns import Missing
from fedsim.sources.frame import of_frame
from fedsim.sources.names import require_sound
from fedsim.sources.pictures import SCALE, decoded

UNLABELLED = -1  # how `datasets` writes that a row has no class
IGNORED = -100  # and that a token has none
Shards = dict[str, Path]


class Roles(NamedTuple):
    """Which column is what."""

    target: str
    features: list[str]
    client: str | None
    image: bool  # the one feature is an image
    alone: bool  # or is lists of numbers
    classes: dict[str, list[str]]  # names of the classes of every ClassLabel column


def one_schema(shards: Shards) -> Any:
    """The columns that all files have.

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
    schema: Any, types: dict[str, Any], target: str | None, features: list[str], client: str | None
) -> Roles:
    """Which columns hold labels, features and ids.

    Raises:
      DataError: for columns that are not there, and where the choice is the user's; all of it at once.
    """
    names, lines = schema.names, []
    classes = {
        n: list(map(str, t["names"])) for n, t in types.items() if isinstance(t.get("names"), list)
    }
    for name, titles in classes.items():
        require_sound(f"names of the classes of {name[:60]!a}", titles, "class")
    images = [name for name in names if is_image(schema.field(name).type, types.get(name, {}))]
    known = [name for name in names if name in classes]
    label = target or (known[0] if len(known) == 1 else "label")
    if target is None and len(known) > 1 and "label" not in known:
        lines.append(
            f"target: {', '.join(known)[:120]} hold classes; write target: and one of them"
        )
    if client is None and "client" in names and "client" != label:
        client = "client"
    for key, name in [
        ("target", label),
        ("client", client),
        *(("features", one) for one in features),
    ]:
        if name is not None and name not in names and not lines:
            lines.append(f"{key}: no column {name[:60]!a}{did_you_mean(name, names)}")
    if not features:
        numbers = [
            n for n in names if n not in (label, client) and is_numeric(schema.field(n).type)
        ]
        features = images or [name for name in numbers if name not in classes]
        if len(images) > 1:
            lines.append(
                f"features: {', '.join(images)[:120]} hold images; write features: [{images[0]}]"
            )
        elif not features and not lines:
            held = ", ".join(f"{name} ({schema.field(name).type})" for name in names)
            lines.append(f"features: no column of images or numbers; there are {held[:160]}")
    lines += [f"features: column {name[:60]!a} is the {key}" for key, name in (("target", label), ("client", client))
              if name in features]  # fmt: skip
    if lines:
        raise DataError(*lines)
    single, image = len(features) == 1, features[0] in images
    alone = single and (image or is_nested(schema.field(features[0]).type))
    return Roles(label, features, client, single and image, alone, classes)


def of_one_column(
    parts: dict[str, Shards],
    schema: Any,
    roles: Roles,
    size: list[int] | None,
    channels: int | None,
) -> Arrays:
    """Samples whose features are one column: images, or lists of numbers.

    Args:
      parts: files of the training split, and of the test split where there is one.
      schema: of all files.
      roles: of the columns.
      size: of the images, where they are resized.
      channels: of the images.

    Raises:
      DataError: for columns that hold nothing to learn from.
    """
    column, shards = (
        roles.features[0],
        {name: path for part in parts.values() for name, path in part.items()},
    )
    others = [
        n
        for n in schema.names
        if n != column and (n == roles.target or is_scalar(schema.field(n).type))
    ]
    tables = {split: _table(part, others, schema) for split, part in parts.items()}
    if roles.image:
        x = decoded(lambda: _encoded(shards, column), size, channels)
    else:
        x = np.concatenate(
            [
                lists(column, b.column(0))
                for path in shards.values()
                for b in batches(path, [column])
            ]
        )
    y = np.concatenate(
        [_labels(table.column(roles.target), roles, split) for split, table in tables.items()]
    )
    who = None
    if roles.client is not None:
        who = np.concatenate(
            [_ids(table.column(roles.client), roles.client) for table in tables.values()]
        )
    train = next(iter(tables.values()))
    columns = _columns(train, roles)
    scale, labels = SCALE if roles.image else 1.0, roles.classes.get(roles.target)
    arrays = Arrays(x, y, who, scale=scale, labels=labels, columns=columns)
    return _parted(arrays, train.num_rows, len(parts) > 1)


def of_table(parts: dict[str, Shards], schema: Any, roles: Roles, missing: Missing) -> Arrays:
    """Samples that are rows of numbers, dates and texts: by the rules of tables.

    Args:
      parts: files of the training split, and of the test split where there is one.
      schema: of all files.
      roles: of the columns.
      missing: what happens to blanks.

    Raises:
      DataError: naming rows, those of the test split behind those of training, and columns.
    """
    used = {*roles.features, roles.target, roles.client}
    names = [
        name
        for name in map(str, schema.names)
        if name in used or is_scalar(schema.field(name).type)
    ]
    tables = {split: _table(part, names, schema) for split, part in parts.items()}
    columns = _columns(next(iter(tables.values())), roles)
    classes = roles.classes.get(roles.target)
    if classes is not None:
        for split, table in tables.items():
            _labels(table.column(roles.target), roles, split)
    n = next(iter(tables.values())).num_rows
    table = _joined(list(tables.values()), _only(schema, names))
    tables.clear()
    for name in set(roles.features) & roles.classes.keys():
        texts = pa.array(spare(table.column(name), roles.classes[name]).tolist(), pa.string())
        table = table.set_column(table.column_names.index(name), name, texts)
    table = table.select([name for name in names if name in used])
    frame = table.to_pandas(split_blocks=True, self_destruct=True)
    del table
    if missing == "drop":
        kept = ~(frame.isna() | frame.isin(BLANK)).any(axis=1).to_numpy()
        columns = {name: values[kept[:n]] for name, values in columns.items()}
        frame, n = frame[kept], int(kept[:n].sum())
    arrays = of_frame(frame, roles.target, roles.client, missing)
    return _parted(arrays._replace(labels=classes, columns=columns), n, len(parts) > 1)


def _table(part: Shards, names: list[str], schema: Any) -> Any:
    """Some columns of a split."""
    only = _only(schema, names)
    table = _joined([_table_of(path, only) for path in part.values()], only)
    require_sound_texts(table)
    return table


def _table_of(path: Path, schema: Any) -> Any:
    """Some columns of a file, without what pandas wrote beside them."""
    read = list(batches(path, schema.names))
    table = pa.Table.from_batches(read) if read else schema.empty_table()
    return table.replace_schema_metadata(None)


def _joined(tables: list[Any], schema: Any) -> Any:
    """Tables of the same columns as one, whose texts are encoded in all of them, or in none."""
    if any(table.schema != tables[0].schema for table in tables):
        tables = [table.cast(schema) for table in tables]
    return pa.concat_tables(tables)


def _columns(train: Any, roles: Roles) -> dict[str, np.ndarray]:
    """The columns of the training rows that are neither features nor labels nor ids, but for long texts."""
    columns, used = {}, {*roles.features, roles.target, roles.client}
    for name in train.column_names:
        if name not in used:
            with contextlib.suppress(DataError):
                columns[name] = spare(train.column(name), roles.classes.get(name))
    return columns


def _parted(arrays: Arrays, n: int, tested: bool) -> Arrays:
    """The first n samples to train on, the others to test on, if there are test samples."""
    x, y, who = arrays.x, arrays.y, arrays.client
    if not tested:
        return arrays
    test = {"x_test": x[n:], "y_test": y[n:], "client_test": None if who is None else who[n:]}
    return arrays._replace(x=x[:n], y=y[:n], client=None if who is None else who[:n], **test)


def _encoded(shards: Shards, column: str) -> Iterator[tuple[str, bytes]]:
    """The images of a column as they are stored.

    Raises:
      DataError: for one that lies elsewhere.
    """
    for shard, path in shards.items():
        row = 0
        for batch in batches(path, [column]):
            held = batch.column(0)
            held = getattr(held, "storage", held)
            images = (
                held.flatten()[held.type.get_field_index("bytes")]
                if pa.types.is_struct(held.type)
                else held
            )
            for image in images:
                name = f"{shard}: row {row} of {column[:60]!a}"
                if not image.is_valid:
                    text = "no image there; where it lies in a file of its own, ds.save_to_disk(FOLDER) takes it up"
                    raise DataError(f"{name}: {text}")
                yield name, image.as_py()
                row += 1


def _labels(column: Any, roles: Roles, split: str) -> np.ndarray:
    """Classes or targets `[n]`, or the labels of tokens `[n, T]`."""
    place = f"split {split[:60]!a}, column {roles.target[:60]!a}"
    if is_nested(column.type):
        y = lists(roles.target, column.combine_chunks())
        return np.where(y == IGNORED, -1, y) if y.dtype.kind in "iu" else y
    if column.null_count or not is_scalar(column.type):
        why = (
            f"{column.null_count} rows have no label"
            if column.null_count
            else f"holds {column.type}, no labels"
        )
        raise DataError(f"{place}: {why}")
    y = _named(column, place)
    if y.dtype.kind in "iu" and len(y) and y.min() == UNLABELLED:
        text = f"row {int(y.argmin())} has the label -1, none; where a test split keeps its labels secret, name another"
        raise DataError(f"{place}: {text} as test_split")
    return y


def _ids(column: Any, name: str) -> np.ndarray:
    if column.null_count or not is_scalar(column.type):
        why = "holds blanks" if column.null_count else f"holds {column.type}, no ids"
        raise DataError(f"client: column {name[:60]!a} {why}")
    return _named(column, f"client: column {name[:60]!a}")


def _named(column: Any, place: str) -> np.ndarray:
    """Numbers or names, a fault with its place."""
    try:
        return plain(column)
    except DataError as error:
        raise error.within(place) from None


def _only(schema: Any, names: list[str]) -> Any:
    return pa.schema([schema.field(name) for name in names])
