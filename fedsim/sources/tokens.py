"""Texts -> tokens: vocabularies, and sequences for models that say what comes next."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from fedsim.limits import require_memory

NOTHING = -1  # the label of a token that has none
PADDING, UNKNOWN = 0, 1  # tokens, where a vocabulary begins with both
SPECIAL = ("<padding>", "<unknown>")
BEGIN, END = "<begin>", "<end>"  # of a text, where a vocabulary has tokens for them
Length = Annotated[int, Ge(1), Le(100_000)]  # tokens of a sequence
WORD = re.compile(r"[\w']+|[.,!?;]")  # as LEAF cuts: words, and punctuation apart


def words_of(text: str) -> list[str]:
    """Words and punctuation of a text, in lower case.

    >>> words_of("Don't panic, Arthur!")
    ["don't", 'panic', ',', 'arthur', '!']
    """
    return WORD.findall(text.lower())


def most_frequent(texts: Iterable[Sequence[str]], size: int) -> list[str]:
    """The tokens that texts hold most often, at most `size`; those that are equally frequent in their order.

    >>> most_frequent([["b", "a"], ["c", "a"]], 2)
    ['a', 'b']
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return sorted(counts, key=lambda token: (-counts[token], token))[:size]


def numbered(tokens: Iterable[str], codes: Mapping[str, int], unknown: int) -> list[int]:
    """The numbers of tokens; `unknown` for those that have none."""
    return [codes.get(token, unknown) for token in tokens]


def filled(codes: Sequence[int], length: int, padding: int = PADDING) -> np.ndarray:
    """The first `length` tokens of a sequence, in front of them padding where it is shorter: a model reads the last place.

    >>> filled([5, 6], 4).tolist()
    [0, 0, 5, 6]
    """
    codes = codes[:length]
    return np.array([padding] * (length - len(codes)) + list(codes), np.int32)


def require_room(sequences: int, length: int) -> None:
    """Refuse sequences that do not fit into memory, before they are made: x and y of int32, and a copy of both.

    Raises:
      TooLarge: when they do not.
    """
    require_memory(sequences=16 * sequences * length)


def next_tokens(
    codes: Sequence[int] | np.ndarray, length: int, padding: int = PADDING, step: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """A text cut into sequences, and what comes next at each place -> (x, y), `[n, length]` each.

    Where nothing follows, y has no label; behind the end, x is padding. Sequences without any label are left out.

    Args:
      codes: tokens of the text `[S]`.
      length: of a sequence.
      padding: a token.
      step: between the beginnings of two sequences; `length` by default: every token but the first is to be foretold once.

    >>> x, y = next_tokens([5, 6, 7, 8], 2)
    >>> x.tolist(), y.tolist()
    ([[5, 6], [7, 8]], [[6, 7], [8, -1]])
    """
    step = step or length
    rows = -(-max(len(codes) - 1, 0) // step)
    text = np.full(rows * step + length + 1, NOTHING, np.int32)
    text[: len(codes)] = codes
    x = np.lib.stride_tricks.sliding_window_view(text, length + 1)[: rows * step : step]
    x, y = x[:, :-1].copy(), x[:, 1:].copy()
    x[x == NOTHING] = padding
    return x, y


def letter_codes(text: str, table: np.ndarray) -> np.ndarray:
    """The numbers of a text's characters, from those of all code points."""
    return table[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")]


def letter_table(letters: Sequence[str], first: int, unknown: int) -> np.ndarray:
    """Numbers of all code points: letters are counted from `first` on.

    >>> letter_codes("cab?", letter_table("abc", 2, 1)).tolist()
    [4, 2, 3, 1]
    """
    table = np.full(0x110000, unknown, np.int32)
    table[[ord(letter) for letter in letters]] = np.arange(first, first + len(letters))
    return table
