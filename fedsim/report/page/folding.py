"""What of many pictures or rows is shown at once, and what is folded away."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

Picture = TypeVar("Picture")
Row = TypeVar("Row")

MOST_ROWS = 60  # of a table; a longer one is folded by method
MANY = 9  # pictures that are all shown
SHOWN = 6  # pictures that are shown of more


class Group(NamedTuple):
    """Rows of a table that are folded together; a title is that of the fold."""

    title: str
    rows: list


def by_method(rows: Sequence[Row], methods: Sequence[str], title: Callable) -> list[Group]:
    """One group of all rows without a title; of many rows a group per method.

    >>> by_method(["a1", "b1"], ["a", "b"], lambda method, rows: method)
    [Group(title='', rows=['a1', 'b1'])]
    >>> groups = by_method([*range(70)], ["a", "b"] * 35, lambda method, rows: method)
    >>> [(title, rows[:2]) for title, rows in groups]
    [('a', [0, 2]), ('b', [1, 3])]
    """
    if len(rows) <= MOST_ROWS:
        return [Group("", list(rows))]
    groups: dict[str, list] = {}
    for row, method in zip(rows, methods, strict=True):
        groups.setdefault(method, []).append(row)
    return [Group(title(method, its_rows), its_rows) for method, its_rows in groups.items()]


def columns(pictures: int) -> int:
    """How many pictures are side by side, so that the last row is not half empty.

    >>> [columns(pictures) for pictures in (1, 2, 3, 4, 5, 9)]
    [1, 2, 3, 2, 3, 3]
    """
    if pictures <= 1:
        return 1
    if pictures in (2, 4):
        return 2
    return 3


class Split(NamedTuple):
    """Pictures that are shown, and those that are folded away, each in their order."""

    shown: list
    folded: list


def those_that_differ(pictures: Sequence[Picture], differences: Sequence[float]) -> Split:
    """All of a few pictures; of many the six in which methods differ most.

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
