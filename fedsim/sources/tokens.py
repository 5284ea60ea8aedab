"""Texts -> tokens: vocabularies, and sequences for models that say what comes next."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

NOTHING = -1  # the label of a token that has none
PADDING, UNKNOWN = 0, 1  # tokens, where a vocabulary begins with both
SPECIAL = ("<padding>", "<unknown>")
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
    """The first `length` tokens of a sequence, behind them padding where it is shorter."""
    row = np.full(length, padding, np.int32)
    row[: len(codes)] = codes[:length]
    return row


def next_tokens(codes: Sequence[int], length: int, padding: int = PADDING) -> tuple[np.ndarray, np.ndarray]:
    """A text cut into sequences, and what comes next at each place -> (x, y), `[n, length]` each.

    Every token but the first is to be foretold once; behind the last one, x is padding and y has no label.

    >>> next_tokens([5, 6, 7, 8], 2)[1].tolist()
    [[6, 7], [8, -1]]
    """
    n = max(len(codes) - 1, 0)
    rows = -(-n // length)
    x, y = np.full(rows * length, padding, np.int32), np.full(rows * length, NOTHING, np.int32)
    x[:n], y[:n] = codes[:-1], codes[1:]
    return x.reshape(rows, length), y.reshape(rows, length)
