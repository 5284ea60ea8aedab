"""Texts -> tokens: vocabularies, and sequences for models that predict the next token."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from fedsim.limits import require_memory
from fedsim.sources.arrays import NO_LABEL

# The first tokens of a vocabulary.
PADDING = 0
UNKNOWN = 1
SPECIAL = ("<padding>", "<unknown>")

# Names of the tokens for the ends of a text, where a vocabulary has them.
BEGIN = "<begin>"
END = "<end>"

Length = Annotated[int, Ge(1), Le(100_000)]  # tokens of a sequence
WORD = re.compile(r"[\w']+|[.,!?;]")  # as LEAF splits: words, and punctuation marks


def words_of(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, in lower case.

    >>> words_of("Don't panic, Arthur!")
    ["don't", 'panic', ',', 'arthur', '!']
    """
    return WORD.findall(text.lower())


def most_frequent(texts: Iterable[Sequence[str]], size: int) -> list[str]:
    """Return the most frequent tokens of texts, at most `size`; ties in sorted order.

    >>> most_frequent([["b", "a"], ["c", "a"]], 2)
    ['a', 'b']
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return sorted(counts, key=lambda token: (-counts[token], token))[:size]


def encode(tokens: Iterable[str], codes: Mapping[str, int], unknown: int) -> list[int]:
    """Return the codes of tokens; `unknown` for those that have none."""
    return [codes.get(token, unknown) for token in tokens]


def left_padded(codes: Sequence[int], length: int) -> np.ndarray:
    """Return the first `length` tokens, with padding in front: models read the last position.

    >>> left_padded([5, 6], 4).tolist()
    [0, 0, 5, 6]
    """
    codes = codes[:length]
    padding = [PADDING] * (length - len(codes))
    return np.array(padding + list(codes), np.int32)


def require_memory_for(sequences: int, length: int) -> None:
    """Refuse sequences that do not fit into memory (x, y, a copy of both) before they are made."""
    require_memory(sequences=16 * sequences * length)


def sequence_count(tokens: int, step: int) -> int:
    """Return the number of sequences that `next_tokens` cuts a text of that many tokens into."""
    labels = max(tokens - 1, 0)
    return -(-labels // step)  # rounded up


def next_tokens(
    codes: Sequence[int] | np.ndarray, length: int, step: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Cut a text `[S]` into sequences -> (x, the next token at each position), both `[n, length]`.

    Behind the end of the text, y has no label and x is padding. Sequences without any label are
    left out. They begin every `step` tokens, by default `length`: every token but the first is a
    label once.

    >>> x, y = next_tokens([5, 6, 7, 8], 2)
    >>> x.tolist(), y.tolist()
    ([[5, 6], [7, 8]], [[6, 7], [8, -1]])
    """
    step = step or length
    rows = sequence_count(len(codes), step)
    text = np.full(rows * step + length + 1, NO_LABEL, np.int32)
    text[: len(codes)] = codes
    windows = np.lib.stride_tricks.sliding_window_view(text, length + 1)
    windows = windows[: rows * step : step]  # [n, length + 1]
    x = windows[:, :-1].copy()
    y = windows[:, 1:].copy()
    x[x == NO_LABEL] = PADDING
    return x, y


def stacked(
    sequences: Iterable[tuple[np.ndarray, np.ndarray]], length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Stack the sequences of several texts -> (x, y), both `[n, length]`."""
    none = np.zeros((0, length), np.int32)
    xs = [none]
    ys = [none]
    for x, y in sequences:
        xs.append(x)
        ys.append(y)
    return np.concatenate(xs), np.concatenate(ys)


def letter_codes(text: str, table: np.ndarray) -> np.ndarray:
    """Return the codes of a text's characters, by a table of the codes of all code points."""
    return table[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")]


def letter_table(letters: Sequence[str], first: int, unknown: int) -> np.ndarray:
    """Return the codes of all code points: letters are numbered from `first`, others `unknown`.

    >>> letter_codes("cab?", letter_table("abc", 2, 1)).tolist()
    [4, 2, 3, 1]
    """
    table = np.full(0x110000, unknown, np.int32)
    table[[ord(letter) for letter in letters]] = np.arange(first, first + len(letters))
    return table
