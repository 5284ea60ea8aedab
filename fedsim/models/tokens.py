"""What a model must know of token samples."""

from typing import NamedTuple


class Tokens(NamedTuple):
    """What a model must know of token samples.

    Attributes:
      vocabulary: samples hold the integers 0, 1, ..., vocabulary - 1.
      every: whether every token has a label: outputs are `[B, T, classes]`; else the sample has one, and they are
        `[B, classes]`.
    """

    vocabulary: int
    every: bool
