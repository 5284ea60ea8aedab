"""Columns of texts in Arrow tables -> `Arrays` of tokens; imports pyarrow."""

from typing import Any, NamedTuple

import numpy as np

from fedsim.errors import DataError, did_you_mean
from fedsim.sources.arrays import Arrays, with_test_set
from fedsim.sources.arrow_columns import is_text
from fedsim.sources.arrow_samples import Shards, client_ids, table_of_shards
from fedsim.sources.tokenizer import (
    Tokenizer,
    pairs_as_sequences,
    texts_as_sequences,
    with_marks,
)

TEXT = "text"  # the column of the texts, where none is named


class TextColumns(NamedTuple):
    """Names of the columns that are read; None: there is no such column."""

    text: str
    answer: str | None
    client: str | None


def text_columns(
    schema: Any, features: list[str], target: str | None, client: str | None
) -> TextColumns:
    """Return which columns hold the texts, their answers and the ids of their clients.

    Args:
      schema: the columns of all files.
      features: the column of the texts; empty: `text`.
      target: the column of the answers, if there are any.
      client: the column of the ids; None: `client`, if there is such a column.

    Raises:
      DataError: for columns that do not exist or hold no texts; all at once.
    """
    names = schema.names
    text, *others = features or [TEXT]
    if client is None and "client" in names and "client" not in (text, target):
        client = "client"

    problems = []
    if others:
        problems.append(f"features: a tokenizer reads one column; write [{text[:60]}] alone")
    for key, name in (("features", text), ("target", target), ("client", client)):
        if name is None:
            continue
        if name not in names:
            problems.append(f"{key}: no column {name[:60]!a}{did_you_mean(name, names)}")
        elif key != "client" and not is_text(schema.field(name).type):
            column_type = schema.field(name).type
            problems.append(f"{key}: column {name[:60]!a} holds {column_type}, not texts")
    if problems:
        raise DataError(*problems)
    return TextColumns(text, target, client)


def of_texts(
    splits: dict[str, Shards],
    columns: TextColumns,
    made: Tokenizer,
    length: int,
) -> Arrays:
    """Return texts as sequences with the next token at every position, or pairs as sequences.

    Args:
      splits: the files of the training split, and of the test split if there is one.
      columns: what is read.
      made: the tokenizer.
      length: tokens of a sequence.

    Raises:
      DataError: for blanks, and where no text has two tokens.
    """
    names = [name for name in columns if name is not None]
    if columns.answer is not None:
        made = with_marks(made)

    xs = []
    ys = []
    ids = []
    for split, shards in splits.items():
        table = table_of_shards(shards, names)
        texts = _texts(table, columns.text, split)
        if columns.answer is None:
            x, y, counts = texts_as_sequences(texts, made, length)
        else:
            x, y = pairs_as_sequences(texts, _texts(table, columns.answer, split), made, length)
            counts = np.ones(len(x), np.int64)
        if not len(x):
            raise DataError(f"split {split[:60]!a}: no text of two tokens or more")
        xs.append(x)
        ys.append(y)
        if columns.client is not None:
            of_rows = client_ids(table.column(columns.client), columns.client)
            ids.append(np.repeat(of_rows, counts))

    arrays = Arrays(
        x=np.concatenate(xs),
        y=np.concatenate(ys),
        client=np.concatenate(ids) if ids else None,
        vocabulary=len(made.names),
        labels=made.names,
    )
    return with_test_set(arrays, len(xs[0])) if len(xs) > 1 else arrays


def _texts(table: Any, name: str, split: str) -> list[str]:
    """The texts of a column.

    Raises:
      DataError: for blanks.
    """
    column = table.column(name)
    if column.null_count:
        where = f"split {split[:60]!a}, column {name[:60]!a}"
        raise DataError(f"{where}: {column.null_count} rows have no text")
    return column.to_pylist()
