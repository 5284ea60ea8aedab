"""Texts for language models: a plain file, or a column of a table."""

import re
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.arrays import Arrays
from fedsim.sources.columns import column_in
from fedsim.sources.delimited import Dialect, table_of, text_in
from fedsim.sources.faults import Faults
from fedsim.sources.files import Name, opened
from fedsim.sources.tokenizer import Texts, Tokenizer, of_texts, samples_of
from fedsim.sources.tokens import Length

MEMORY_PER_BYTE = 26  # bytes of memory for each byte of text, about
TABLE = re.compile(r".*\.(csv|tsv)(\.gz)?", re.IGNORECASE)
WRITE_COLUMN = "name the column of the texts with `column`"


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
    answer: Name | None = None,
    tokenizer: Tokenizer | None = None,
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
    classes show the characters or words. `data.tokenizer` brings another vocabulary: `bytes`, or
    that of a `tokenizer.json`.

    With `answer`, a row is a question and its answer in one sequence, with a mark in front of the
    answer and one behind, which are the last two tokens of the vocabulary. The tokens of the answer
    and the mark behind it have a label, and no others. A pair that is too long loses the start of
    its question.

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
      answer: the column of the answers to the texts, in a table.
      tokenizer: what makes tokens in place of `tokens` and `vocabulary`.

    Raises:
      DataError: naming lines and columns, for a file that is not such a text or table.
    """
    with opened(path, sha256) as file:
        for key, name in (("client", client), ("answer", answer)):
            if column is None and name is not None:
                raise DataError(f"{key} names a column, but a plain text has none; {WRITE_COLUMN}")
        if column is None and TABLE.fullmatch(path):
            raise DataError(f"is a table by its name; {WRITE_COLUMN}")
        content = text_in(file)
        require_memory(text=MEMORY_PER_BYTE * len(content))
        if column is None:
            texts = Texts([content.replace("\r\n", "\n")])
        else:
            texts = _columns(table_of(content, Dialect(delimiter)), column, client, answer)
        made = tokenizer or of_texts([*texts.texts, *(texts.answers or ())], tokens, vocabulary)
        arrays = samples_of(texts, made, length)
        if not len(arrays.x):
            noun = tokens if tokenizer is None else "token"
            raise DataError(f"no text of two {noun}s or more; a label is the {noun} after another")
        return arrays


def _columns(frame: Any, column: str, client: str | None, answer: str | None) -> Texts:
    """The texts in a column of a table, and the ids and answers in others."""
    if client is None and "client" in frame.columns and "client" not in (column, answer):
        client = "client"
    faults = Faults(list(frame.columns), lambda row: f"row {frame.index[row]}")
    roles = {"column": column, "client": client, "answer": answer}
    read = {
        role: column_in(frame, name, faults, role)
        for role, name in roles.items()
        if name is not None
    }
    ids = None
    if client is not None:
        ids = np.array(read["client"].cells.tolist(), str)
        read["client"].add(ids == "", "no client id")
    faults.raise_any()
    answers = None if answer is None else frame[answer].tolist()  # spaces around them count
    return Texts(frame[column].tolist(), answers, ids)
