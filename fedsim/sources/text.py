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
from fedsim.sources.delimited import Dialect, chunks_of, table_in, unpacked
from fedsim.sources.faults import Faults
from fedsim.sources.files import MAX_RATIO, Name, opened
from fedsim.sources.tokens import (
    SPECIAL,
    UNKNOWN,
    Length,
    encode,
    letter_codes,
    letter_table,
    most_frequent,
    next_tokens,
    require_memory_for,
    sequence_count,
    stacked,
    words_of,
)

MEMORY_PER_BYTE = 26  # bytes of memory for each byte of text, about
TABLE = re.compile(r".*\.(csv|tsv)(\.gz)?", re.IGNORECASE)
WRITE_COLUMN = "name the column of the texts with `column`"


class Texts(NamedTuple):
    """Texts, and the ids of their clients."""

    texts: Sequence[str]
    client: Sequence[str] | None = None


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
    """Text in UTF-8 as sequences of tokens whose labels are the next tokens, both `[n, length]`.

    Without `column`, the file is one text, plain or gzipped. With it, the file is a table with a
    header (CSV, TSV): each row holds a text in that column, and possibly the id of a client in
    another. Tokens are characters, or words in lower case and the marks `. , ! ? ;` (other marks
    and spaces are left out). Each text is cut every `length` tokens, so that every token but the
    first of a text is a label once; behind the end of a text, y is −1 and x is padding. Texts of
    fewer than two tokens give no sample.

    Token 0 is padding, 1 any token that is not in the vocabulary; from 2 on come the most frequent
    tokens of all texts in the file, ties in sorted order. The vocabulary is that of all texts
    because the test set is drawn from the sequences afterwards (`data.test`, at random): so which
    tokens exist, and their order, also depends on the test text. Tables and figures that list
    classes show the characters or words.

    Args:
      path: the file, in the scenario's folder, the working directory or a `--data-root`.
      column: the column of the texts, in a table.
      client: the column of the client ids; left out: `client`, if there is such a column. Tables
        show the ids.
      tokens: what a text is split into.
      length: the number of tokens of a sequence.
      vocabulary: the number of tokens with padding and the unknown one; fewer where fewer occur.
      delimiter: the character between cells of a table, as in `csv`.
      sha256: the file's hash; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: naming lines and columns, for a file that is not such a text or table.
    """
    with opened(path, sha256) as file:
        if column is None and client is not None:
            raise DataError(f"client names a column, but a plain text has none; {WRITE_COLUMN}")
        if column is None and TABLE.fullmatch(path):
            raise DataError(f"is a table by its name; {WRITE_COLUMN}")
        require_memory(text=MEMORY_PER_BYTE * file.seek(0, 2))
        file.seek(0)
        texts = _plain(file) if column is None else _column(file, column, client, delimiter)
        return _sequences(texts, tokens, length, vocabulary)


def _plain(file: BinaryIO) -> Texts:
    """A file as one text."""
    with unpacked(file) as (source, max_characters):
        max_characters = min(max_characters, memory_limit() // MEMORY_PER_BYTE)
        try:
            content = source.read(max_characters + 1)
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text: {error.reason}; save it as UTF-8") from None
        except (OSError, EOFError) as error:
            raise DataError(f"not a sound gzip file: {error}") from None
    if len(content) > max_characters:
        limit = f"at most {MAX_RATIO}-fold, and as much as fits into memory"
        raise DataError(f"unpacks to more than {max_characters} bytes: {limit}")
    return Texts([content.replace("\r\n", "\n")])


def _column(file: BinaryIO, column: str, client: str | None, delimiter: str) -> Texts:
    """The texts in a column of a table, and the ids in another."""
    with table_in(file, Dialect(delimiter), column) as (names, rows):
        if client is None and "client" in names and column != "client":
            client = "client"
        text_index = _index_of(names, "column", column)
        client_index = None if client is None else _index_of(names, "client", client)

        faults = Faults("line", names)
        texts: list[str] = []
        ids: list[str] = []
        for chunk, line_numbers in chunks_of(rows, len(names), faults):
            texts += [row[text_index] for row in chunk]
            if client_index is None:
                continue
            for row, line_number in zip(chunk, line_numbers, strict=True):
                client_id = row[client_index].strip()
                ids.append(client_id)
                if not client_id:
                    faults.add(line_number, client_index, "no client id")
        faults.raise_any()
    return Texts(texts, None if client is None else ids)


def _index_of(names: list[str], role: str, name: str) -> int:
    """The position of a column among all columns."""
    if names.count(name) == 1:
        return names.index(name)
    if name in names:
        raise DataError(f"{role}: several columns are called {name[:40]!a}; give each its own name")
    near = nearest(name, set(names))
    if near:
        raise DataError(f"{role}: no column {name[:40]!a}; did you mean {near!a}?")
    listed = ", ".join(ascii(column[:40]) for column in names[:8])
    raise DataError(f"{role}: no column {name[:40]!a}; there are {listed}")


def _sequences(texts: Texts, tokens: str, length: int, vocabulary: int) -> Arrays:
    """Texts as sequences of tokens, with the next token at every position."""
    by_character = tokens == "character"
    split_texts: list[Sequence[str]] = list(texts.texts)
    if not by_character:
        split_texts = [words_of(text) for text in texts.texts]
    sequences = sum(sequence_count(len(text), length) for text in split_texts)
    require_memory_for(sequences, length)

    names = [*SPECIAL, *most_frequent(split_texts, vocabulary - len(SPECIAL))]
    encoded: Iterator[Any]
    if by_character:
        table = letter_table(names[len(SPECIAL) :], len(SPECIAL), UNKNOWN)
        encoded = (letter_codes(text, table) for text in texts.texts)
    else:
        codes = {name: code for code, name in enumerate(names)}
        encoded = (encode(text, codes, UNKNOWN) for text in split_texts)

    samples = [next_tokens(text, length) for text in encoded]
    x, y = stacked(samples, length)
    if not len(x):
        raise DataError(f"no text of two {tokens}s or more; a label is the {tokens} after another")
    client = None
    if texts.client is not None:
        sizes = [len(text_x) for text_x, _ in samples]
        client = np.repeat(np.array(texts.client), sizes)
    return Arrays(x, y, client, vocabulary=len(names), labels=names)
