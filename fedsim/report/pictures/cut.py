"""Axes that are cut: where one method is far from all others, which its distance would squeeze."""

from collections.abc import Sequence

SQUEEZED = 5.0  # an axis is cut where one method makes it that many times as long as the others do
OTHERS = 3  # methods that are squeezed, at least


def outlier(rows: Sequence[Sequence[float]], fixed: Sequence[float] = ()) -> int | None:
    """The position of the only row that squeezes all others; None where there is none.

    Args:
      rows: the finite numbers of every method, none for a method that has none.
      fixed: numbers that the axis shows in any case.

    >>> outlier([[0.1], [0.90, 0.91], [0.92], [0.95]])
    0
    >>> outlier([[0.1], [0.15], [0.92], [0.95]])
    >>> outlier([[0.1], [0.9], [0.91]])
    """
    present = [index for index, row in enumerate(rows) if len(row)]
    if len(present) <= OTHERS:
        return None
    whole = _length(_others(rows, left_out=None), fixed)
    lengths = {index: _length(_others(rows, index), fixed) for index in present}
    farthest = min(present, key=lambda index: lengths[index])
    is_squeezing = 0 < lengths[farthest] * SQUEEZED <= whole
    if not is_squeezing:
        return None
    return farthest


def without_outlier(rows: Sequence[Sequence[float]], fixed: Sequence[float] = ()) -> list[float]:
    """All numbers that an axis spans: those of all methods but the one that would squeeze them."""
    return [*_others(rows, outlier(rows, fixed)), *fixed]


def _others(rows: Sequence[Sequence[float]], left_out: int | None) -> list[float]:
    numbers = []
    for index, row in enumerate(rows):
        if index != left_out:
            numbers += row
    return numbers


def _length(numbers: Sequence[float], fixed: Sequence[float]) -> float:
    spanned = [*numbers, *fixed]
    return max(spanned) - min(spanned)
