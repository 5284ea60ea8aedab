"""What a model must know about samples that are tokens."""

from typing import NamedTuple


class Tokens(NamedTuple):
    """What a model must know about samples that are tokens.

    Attributes:
      vocabulary: samples hold the integers 0, 1, ..., vocabulary - 1.
      every: whether every token has a label, and outputs are `[B, T, classes]`; else the sample has
        one, and they are `[B, classes]`.
    """

    vocabulary: int
    every: bool
