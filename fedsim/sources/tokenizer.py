"""Tokenizers: texts -> tokens and back, and pairs of a question and its answer as sequences."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import NO_LABEL, Arrays
from fedsim.sources.files import opened
from fedsim.sources.packages import required
from fedsim.sources.tokens import (
    BEGIN,
    END,
    PADDING,
    SPECIAL,
    UNKNOWN,
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

BYTES = 256

Codes = np.ndarray
"""Tokens of a text `[S]`."""


class Tokenizer(NamedTuple):
    """How texts become tokens, and tokens texts."""

    encode: Callable[[str], Codes]  # text -> tokens `[S]`
    names: list[str]  # of all tokens, by number
    decode: Callable[[Sequence[int]], str] | None = None


def tokenizer(name: str, sha256: str | None = None) -> Tokenizer:
    """Return a tokenizer by its name, or from a file of the package `tokenizers`.

    `bytes` needs no vocabulary: token 0 is padding, and token b + 1 is the byte b of a text in
    UTF-8, so that every text comes back exactly.

    Args:
      name: `bytes`, or the path of a `tokenizer.json`.
      sha256: the file's hash; another file is refused.

    Returns:
      What encodes texts as tokens, and decodes them.

    Raises:
      DataError: for a file that is no tokenizer, and without the package that reads it.

    >>> by_bytes = tokenizer("bytes")
    >>> by_bytes.encode("aß").tolist(), by_bytes.decode(by_bytes.encode("aß"))
    ([98, 196, 160], 'aß')
    """
    return by_bytes() if name == "bytes" else of_file(name, sha256)


def by_bytes() -> Tokenizer:
    """Return the tokenizer of bytes, with a vocabulary of 257."""
    first = PADDING + 1

    def encoded(text: str) -> Codes:
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32) + first

    def decoded(codes: Sequence[int]) -> str:
        content = bytes(code - first for code in codes if 0 <= code - first < BYTES)
        return content.decode(errors="replace")

    letters = [chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in range(BYTES)]
    return Tokenizer(encoded, [SPECIAL[PADDING], *letters], decoded)


def of_file(path: str, sha256: str | None = None) -> Tokenizer:
    """Return the tokenizer that a `tokenizer.json` describes.

    It adds no token to a text by itself, such as those for its ends.
    """
    with opened(path, sha256) as file:
        package = required("tokenizers", "a tokenizer.json", "text")
        try:
            made = package.Tokenizer.from_str(file.read().decode())
        except Exception as error:  # the package raises nothing more special
            reason = (str(error).splitlines() or [""])[0][:200]
            raise DataError(f"not a tokenizer.json: {reason}") from None
    made.no_padding()
    made.no_truncation()

    def encoded(text: str) -> Codes:
        return np.array(made.encode(text, add_special_tokens=False).ids, np.int32)

    def decoded(codes: Sequence[int]) -> str:
        known = [int(code) for code in codes if 0 <= code < size]
        return made.decode(known, skip_special_tokens=True)

    by_name = made.get_vocab(with_added_tokens=True)
    size = max(by_name.values(), default=-1) + 1
    names = [f"<{number}>" for number in range(size)]
    for name, number in by_name.items():
        names[number] = name
    return Tokenizer(encoded, names, decoded)


def of_texts(texts: Sequence[str], by: str, vocabulary: int) -> Tokenizer:
    """Return the tokenizer of the most frequent characters or words of texts.

    Token 0 is padding, 1 any token that is not in the vocabulary; from 2 on come the most frequent
    ones, ties in sorted order.
    """
    first = len(SPECIAL)
    if by == "character":
        letters = most_frequent(texts, vocabulary - first)
        table = letter_table(letters, first, UNKNOWN)
        names = [*SPECIAL, *letters]
        return Tokenizer(functools.partial(letter_codes, table=table), names)

    words = most_frequent(map(words_of, texts), vocabulary - first)
    names = [*SPECIAL, *words]
    codes = {name: code for code, name in enumerate(names)}

    def encoded(text: str) -> Codes:
        return np.array(encode(words_of(text), codes, UNKNOWN), np.int32)

    return Tokenizer(encoded, names)


def texts_as_sequences(
    texts: Sequence[str], made: Tokenizer, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return texts as sequences with the next token at every position.

    They are x and y `[n, length]`, and the number of sequences of each text `[texts]`.
    """
    codes = [made.encode(text) for text in texts]
    counts = np.array([sequence_count(len(of_text), length) for of_text in codes], np.int64)
    require_memory_for(int(counts.sum()), length)
    x, y = stacked((next_tokens(of_text, length) for of_text in codes), length)
    return x, y, counts


def with_marks(made: Tokenizer) -> Tokenizer:
    """Return a tokenizer whose vocabulary ends with the marks in front of answers and behind."""
    return made._replace(names=[*made.names, BEGIN, END])


def pairs_as_sequences(
    questions: Sequence[str], answers: Sequence[str], made: Tokenizer, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs as sequences x and y `[n, length]`; only tokens of the answer have a label.

    A sequence is question, mark, answer, mark; labels are the tokens of the answer and the last
    mark. One that is too long loses the start of its question first, then the end of its answer.
    The tokenizer has marks.

    >>> x, y = pairs_as_sequences(["ab"], ["c"], with_marks(tokenizer("bytes")), 5)
    >>> x.tolist(), y.tolist()
    ([[98, 99, 257, 100, 0]], [[-1, -1, 100, 258, -1]])
    """
    require_memory_for(len(questions), length)
    begin = len(made.names) - 2
    end = begin + 1
    x = np.full((len(questions), length), PADDING, np.int32)
    y = np.full((len(questions), length), NO_LABEL, np.int32)
    for row, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        answered = np.array([begin, *made.encode(answer), end], np.int32)[: length + 1]
        asked = made.encode(question)
        asked = asked[max(len(asked) + len(answered) - (length + 1), 0) :]
        tokens = np.concatenate([asked, answered])
        x[row, : len(tokens) - 1] = tokens[:-1]
        y[row, len(asked) : len(tokens) - 1] = answered[1:]
    return x, y


class Texts(NamedTuple):
    """Texts, the answers to them, and the ids of their clients; None where there are none."""

    texts: Sequence[str]
    answers: Sequence[str] | None = None
    client: np.ndarray | None = None


def samples_of(texts: Texts, made: Tokenizer, length: int) -> Arrays:
    """Return texts as sequences with the next token at every position, or pairs as sequences."""
    if texts.answers is None:
        x, y, counts = texts_as_sequences(texts.texts, made, length)
    else:
        made = with_marks(made)
        x, y = pairs_as_sequences(texts.texts, texts.answers, made, length)
        counts = np.ones(len(x), np.int64)
    client = None if texts.client is None else np.repeat(texts.client, counts)
    return Arrays(x, y, client, vocabulary=len(made.names), labels=made.names)
