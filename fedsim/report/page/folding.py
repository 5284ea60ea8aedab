"""What of many pictures or rows is shown at once, and what is folded away."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

Picture = TypeVar("Picture")

MANY = 9  # pictures that are all shown
SHOWN = 6  # pictures that are shown of more


class Split(NamedTuple):
    """Pictures that are shown, and those that are folded away, each in their order."""

    shown: list
    folded: list


def those_that_differ(pictures: Sequence[Picture], differences: Sequence[float]) -> Split:
    """All of a few pictures; of many the six in which methods differ most.

    Args:
      pictures: in their order.
      differences: how much methods differ in each.

    >>> those_that_differ("abc", [1, 2, 3])
    Split(shown=['a', 'b', 'c'], folded=[])
    >>> those_that_differ("abcdefghij", [9, 0, 8, 0, 7, 6, 0, 5, 4, 0])
    Split(shown=['a', 'c', 'e', 'f', 'h', 'i'], folded=['b', 'd', 'g', 'j'])
    """
    if len(pictures) <= MANY:
        return Split(list(pictures), [])
    ranked = sorted(range(len(pictures)), key=lambda index: -differences[index])
    largest = set(ranked[:SHOWN])
    split = Split([], [])
    for index, picture in enumerate(pictures):
        part = split.shown if index in largest else split.folded
        part.append(picture)
    return split
