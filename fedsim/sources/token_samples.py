"""Texts and their answers -> samples of tokens, from a table or from files of Arrow."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsim.sources.arrays import Arrays
from fedsim.sources.tokenizer import (
    Tokenizer,
    pairs_as_sequences,
    texts_as_sequences,
    with_marks,
)


class Texts(NamedTuple):
    """Texts, the answers to them, and the ids of their clients; None where there are none."""

    texts: Sequence[str]
    answers: Sequence[str] | None = None
    client: np.ndarray | None = None


def samples_of(texts: Texts, made: Tokenizer, length: int) -> Arrays:
    """Return texts as sequences with the next token at every position, or pairs as sequences.

    Args:
      texts: the texts, possibly with answers.
      made: their tokenizer.
      length: tokens of a sequence.
    """
    if texts.answers is None:
        x, y, counts = texts_as_sequences(texts.texts, made, length)
    else:
        made = with_marks(made)
        x, y = pairs_as_sequences(texts.texts, texts.answers, made, length)
        counts = np.ones(len(x), np.int64)
    client = None if texts.client is None else np.repeat(texts.client, counts)
    return Arrays(x, y, client, vocabulary=len(made.names), labels=made.names)
