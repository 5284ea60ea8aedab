"""Axes of the page's pictures: which part of the data is where, and where the ticks are. The script computes them likewise."""

import math
from collections.abc import Sequence
from typing import NamedTuple

WIDE = 100.0  # largest over smallest positive value, from which on an axis is logarithmic


class Axis(NamedTuple):
    """A stretch of numbers on a stretch of the picture.

    Attributes:
      low: number at `begin`.
      high: number at `end`.
      begin: where it begins, in the picture's units.
      end: where it ends.
      log: whether equal distances are equal ratios.
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a number is."""
        low, high, value = (
            math.log10(v) if self.log else v for v in (self.low, self.high, max(value, self.least))
        )
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)

    @property
    def least(self) -> float:
        """The smallest number that has a place."""
        return self.low if self.log else -math.inf

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers within, a few of them.

        >>> Axis(0.0, 1.0, 0, 100).ticks()
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        >>> Axis(0.03, 500.0, 0, 100, log=True).ticks()
        [0.1, 1.0, 10.0, 100.0]
        >>> Axis(0.15, 1.2, 0, 100, log=True).ticks()
        [0.2, 0.5, 1.0]
        """
        if self.log:
            first, last = (
                math.ceil(math.log10(self.low) - 1e-9),
                math.floor(math.log10(self.high) + 1e-9),
            )
            if last - first < 2:  # too few powers
                some = [
                    times * 10.0**power
                    for power in range(first - 1, last + 1)
                    for times in (1, 2, 5)
                ]
                return [round(tick, 12) for tick in some if self.low <= tick <= self.high]
            step = max(-(-(last - first) // (most - 1)), 1)
            return [10.0**power for power in range(first, last + 1, step)]
        rough = (self.high - self.low) / (most - 1)
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(
            unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= rough * (1 - 1e-9)
        )
        first = math.ceil(self.low / step - 1e-9)
        return [round(step * k, 12) for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def axis(
    values: Sequence[float], begin: float, end: float, share: bool = False, whole: bool = False
) -> Axis:
    """An axis for finite values.

    Args:
      values: what is drawn on it.
      begin: where it begins.
      end: where it ends.
      share: they are shares: at most from 0 to 1.
      whole: it begins at the first and ends at the last value, without room beside them.
    """
    low, high = (min(values), max(values)) if len(values) else (0.0, 1.0)
    if low == high:
        room = max(0.5, abs(low) / 20)  # what is added to a large number must not be lost in it
        low, high = (
            (low - room, high + room)
            if not share
            else (max(low - 0.05, 0.0), min(high + 0.05, 1.0))
        )
    if whole:
        return Axis(low, high, begin, end)
    if not share and low > 0 and high > WIDE * low:
        return Axis(low / 1.2, high * 1.2, begin, end, log=True)
    room = 0.04 * (high - low)
    bottom, top = low - room, high + room
    return (
        Axis(max(bottom, 0.0), min(top, 1.0), begin, end)
        if share
        else Axis(bottom, top, begin, end)
    )


def short(value: float) -> str:
    """A number on an axis.

    >>> short(0.2), short(1000000.0), short(1e-05), short(2500.0)
    ('0.2', '1M', '1e-05', '2500')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size and size < 1e12:
            scaled = value / (1e3 if letter == "k" else size)
            return (
                f"{scaled:g}{letter}"
                if scaled < 1e5
                else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
            )
    return f"{value:g}"
