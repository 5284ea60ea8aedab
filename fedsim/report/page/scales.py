"""Axes of the page's strips: where numbers lie, and which ticks there are."""

import math
from collections.abc import Sequence
from typing import NamedTuple

# An axis is logarithmic where its largest value is that many times the smallest.
LOGARITHMIC = 100.0
ROUNDING = 1e-9  # so that a tick at the very end of an axis is not lost to floating point


class Axis(NamedTuple):
    """An interval of numbers on an interval of the picture.

    Attributes:
      low: the number at `begin`.
      high: the number at `end`.
      begin: where the axis begins, in the picture's units.
      end: where it ends.
      log: whether the axis is logarithmic.
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The position of a number; on a logarithmic axis at least `begin`."""
        low = self.low
        high = self.high
        if self.log:
            value = math.log10(max(value, low))
            low = math.log10(low)
            high = math.log10(high)
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers on the axis, about `most` of them.

        >>> Axis(0.0, 1.0, 0, 100).ticks()
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        >>> Axis(0.03, 500.0, 0, 100, log=True).ticks()
        [0.1, 1.0, 10.0, 100.0]
        >>> Axis(0.15, 1.2, 0, 100, log=True).ticks()
        [0.2, 0.5, 1.0]
        """
        if self.log:
            return _logarithmic_ticks(self.low, self.high, most)
        return _linear_ticks(self.low, self.high, most)


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten."""
    smallest_step = (high - low) / (most - 1)
    unit = 10.0 ** math.floor(math.log10(smallest_step))
    step = unit
    for times in (1, 2, 2.5, 5, 10):
        step = unit * times
        if step >= smallest_step * (1 - ROUNDING):
            break

    first = math.ceil(low / step - ROUNDING)
    last = math.floor(high / step + ROUNDING)
    return [round(step * k, 12) for k in range(first, last + 1)]


def _logarithmic_ticks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten; where there are fewer than three, also twice and five times each of them."""
    first = math.ceil(math.log10(low) - ROUNDING)
    last = math.floor(math.log10(high) + ROUNDING)
    if last - first >= 2:
        step = max(-(-(last - first) // (most - 1)), 1)
        return [10.0**power for power in range(first, last + 1, step)]

    ticks = []
    for power in range(first - 1, last + 1):
        for times in (1, 2, 5):
            tick = times * 10.0**power
            if low <= tick <= high:
                ticks.append(round(tick, 12))
    return ticks


def axis(values: Sequence[float], begin: float, end: float, share: bool = False) -> Axis:
    """An axis for finite values.

    Args:
      values: the numbers that are drawn on it.
      begin: where it begins, in the picture's units.
      end: where it ends.
      share: the values are shares; the axis stays between 0 and 1.
    """
    low, high = _range(values, share)
    if not share and low > 0 and high > LOGARITHMIC * low:
        return Axis(low / 1.2, high * 1.2, begin, end, log=True)

    margin = 0.04 * (high - low)
    low = low - margin
    high = high + margin
    if share:
        low = max(low, 0.0)
        high = min(high, 1.0)
    return Axis(low, high, begin, end)


def _range(values: Sequence[float], share: bool) -> tuple[float, float]:
    """The smallest and the largest value; a little around a single one."""
    if not len(values):
        return 0.0, 1.0
    low = min(values)
    high = max(values)
    if low < high:
        return low, high
    if share:
        return max(low - 0.05, 0.0), min(high + 0.05, 1.0)

    # what is added to a large number must not be lost in it
    margin = max(0.5, abs(low) / 20)
    return low - margin, high + margin
