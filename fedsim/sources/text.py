"""Texts for language models: a plain file, or a column of a table."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

import numpy as np
from annotated_types import Ge

from fedsim.compose import dataset
from fedsim.errors import DataError, nearest
from fedsim.limits import memory_limit, require_memory
from fedsim.sources.arrays import Arrays
from fedsim.sources.delimited import chunks_of, table_in, unpacked
from fedsim.sources.faults import Faults
from fedsim.sources.files import MOST_RATIO, Name, opened
from fedsim.sources.tokens import (
    SPECIAL,
    UNKNOWN,
    Length,
    letter_codes,
    letter_table,
    most_frequent,
    next_tokens,
    numbered,
    require_room,
    words_of,
)

HELD = 26  # bytes of memory for each byte of text, about
TABLE = re.compile(r".*\.(csv|tsv)(\.gz)?", re.IGNORECASE)


@dataset
def text(
    path: Name,
    column: Name | None = None,
    client: Name | None = None,
    tokens: Literal["character", "word"] = "character",
    length: Length = 80,
    vocabulary: Annotated[int, Ge(3)] = 10_000,
    delimiter: Name = "auto",
    sha256: str | None = None,
) -> Arrays:
    """Text in UTF-8, plain or gzipped, as sequences of tokens whose labels are the next tokens, `[n, length]` each.

    Without `column`, the file is one text. With it, the file is a table with a header (CSV, TSV), each row holds a text in
    that column, and perhaps the id of a client in another. Tokens are characters, or words in lower case and the marks
    `. , ! ? ;` (other marks and blanks are left out). Each text is cut every `length` tokens, so that every token but the
    first of a text is a label once; y is −1 behind the end of a text, where x is padding. Texts of fewer than two tokens
    give no sample.

    Token 0 is padding, 1 any token that the vocabulary lacks; from 2 on stand the most frequent tokens of all the texts in
    the file, ties in their order. The vocabulary is that of all texts because the test set is cut from the sequences
    afterwards (`data.test`, at random): which tokens there are, and their order, is also known of the text that is tested
    on. Tables and pictures that list classes name tokens by what they stand for.

    Args:
      path: of the file, from the scenario's folder, the working directory or a `--data-root`.
      column: of the texts, in a table.
      client: column of the client ids; left out: `client`, if there is such a column. Ids keep their names in all tables.
      tokens: what a text consists of.
      length: tokens of a sequence.
      vocabulary: how many tokens there are, padding and the unknown one included; fewer where fewer occur.
      delimiter: between cells of a table, as in `csv`.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for a file that is no such text or table, naming lines and columns.
    """
    with opened(path, sha256) as file:
        if column is None and client is not None:
            raise DataError(
                "client names a column, and a plain text has none; name the column of the texts with `column`"
            )
        if column is None and TABLE.fullmatch(path):
            raise DataError("is a table by its name; name the column of the texts with `column`")
        require_memory(text=HELD * file.seek(0, 2))
        file.seek(0)
        texts = _plain(file) if column is None else _cells(file, column, client, delimiter)
        return _sequences(texts, tokens, length, vocabulary)


class Texts(NamedTuple):
    """Texts, and whose they are."""

    texts: Sequence[str]
    client: Sequence[str] | None = None


def _plain(file: BinaryIO) -> Texts:
    """A file as one text."""
    with unpacked(file) as (source, most):
        most = min(most, memory_limit() // HELD)
        try:
            content = source.read(most + 1)
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text: {error.reason}; save it as UTF-8") from None
        except (OSError, EOFError) as error:
            raise DataError(f"not a sound gzip file: {error}") from None
    if len(content) > most:
        raise DataError(
            f"unpacks to more than {most} bytes: at most {MOST_RATIO}-fold, and what the memory holds"
        )
    return Texts([content.replace("\r\n", "\n")])


def _cells(file: BinaryIO, column: str, client: str | None, delimiter: str) -> Texts:
    """The texts in a column of a table."""
    with table_in(file, delimiter, column) as (names, rows):
        if client is None and "client" in names and column != "client":
            client = "client"
        places = [
            _place(names, role, name)
            for role, name in (("column", column), ("client", client))
            if name is not None
        ]
        faults = Faults("line", names)
        texts: list[str] = []
        ids: list[str] = []
        for chunk, numbers in chunks_of(rows, len(names), faults):
            texts += [row[places[0]] for row in chunk]
            if client is not None:
                ids += [row[places[1]].strip() for row in chunk]
                for row, number in zip(chunk, numbers, strict=True):
                    if not row[places[1]].strip():
                        faults.add(number, places[1], "no client id")
        faults.raise_any()
    return Texts(texts, None if client is None else ids)


def _place(names: list[str], role: str, name: str) -> int:
    if names.count(name) == 1:
        return names.index(name)
    if name in names:
        raise DataError(f"{role}: several columns are called {name[:40]!a}; give each its own name")
    near = nearest(name, set(names))
    instead = (
        f"did you mean {near!a}?"
        if near
        else f"there are {', '.join(ascii(n[:40]) for n in names[:8])}"
    )
    raise DataError(f"{role}: no column {name[:40]!a}; {instead}")


def _sequences(texts: Texts, tokens: str, length: int, vocabulary: int) -> Arrays:
    """Texts as sequences of tokens with the next token at every place."""
    parts: list[Sequence[str]] = (
        list(texts.texts) if tokens == "character" else [words_of(t) for t in texts.texts]
    )
    require_room(sum(-(-max(len(part) - 1, 0) // length) for part in parts), length)
    known = [*SPECIAL, *most_frequent(parts, vocabulary - len(SPECIAL))]
    if tokens == "character":
        table = letter_table(known[len(SPECIAL) :], len(SPECIAL), UNKNOWN)
        encoded: Iterator[Any] = (letter_codes(text, table) for text in texts.texts)
    else:
        codes = {token: code for code, token in enumerate(known)}
        encoded = (numbered(part, codes, UNKNOWN) for part in parts)
    rows = [next_tokens(part, length) for part in encoded]
    x, y = (
        np.concatenate([np.zeros((0, length), np.int32), *(row[side] for row in rows)])
        for side in (0, 1)
    )
    if not len(x):
        raise DataError(
            f"no text of two {tokens}s or more; a label is the {tokens} behind another one"
        )
    ids = texts.client
    client = None if ids is None else np.repeat(np.array(ids), [len(row[0]) for row in rows])
    return Arrays(x, y, client, vocabulary=len(known), labels=known)
