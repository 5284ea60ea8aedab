"""Ranges that settings are drawn from: `uniform(0, 1)`, `log(1e-3, 1)` and `integers(1, 8)`."""

import math
import re
from typing import Any, Literal, NamedTuple, cast, get_args

RangeKind = Literal["uniform", "log", "integers"]
CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*", re.ASCII)
FORMS = "uniform(LOW, HIGH), log(LOW, HIGH) or integers(LOW, HIGH)"
DIGITS = 3  # significant ones of a drawn number, so that tables can be read


class Range(NamedTuple):
    """Where a setting is drawn from.

    Attributes:
      kind: `uniform`, `log` (its logarithm is uniform) or `integers` (all equally likely).
      low: the lower end, which belongs to it.
      high: the upper end, which belongs to it as well.
    """

    kind: RangeKind
    low: float
    high: float

    def at(self, share: float) -> float:
        """Return the value below which a share of the range lies, rounded to be readable.

        >>> Range("log", 0.001, 1.0).at(0.5), Range("integers", 1, 8).at(0.999)
        (0.0316, 8)
        """
        if self.kind == "integers":
            low = int(self.low)
            high = int(self.high)
            return min(low + math.floor(share * (high - low + 1)), high)
        if self.kind == "log":
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + share * (self.high - self.low)
        rounded = float(f"{value:.{DIGITS}g}")
        return min(max(rounded, self.low), self.high)

    def share_of(self, value: float) -> float:
        """Return the share of the range that lies below a value; of an integer, below its middle.

        >>> Range("log", 0.01, 1.0).share_of(0.1), Range("integers", 1, 8).share_of(8)
        (0.5, 0.9375)
        """
        if self.kind == "integers":
            return (value - self.low + 0.5) / self.size
        if self.kind == "log":
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def __str__(self) -> str:
        return f"{self.kind}({self.low:g}, {self.high:g})"

    @property
    def size(self) -> float:
        """How many values it has, rounding aside."""
        if self.kind == "integers":
            return self.high - self.low + 1
        return math.inf


def is_range(value: Any) -> bool:
    """Return whether a value is written as a range, readable or not: a call of one of its kinds.

    >>> is_range("log(1e-3, 1)"), is_range("log(1)"), is_range("krum(f=2)"), is_range([0.1, 1])
    (True, True, False, False)
    """
    match = CALL.fullmatch(value) if isinstance(value, str) else None
    return match is not None and match[1] in get_args(RangeKind)


def range_of(text: str) -> Range:
    """Return a range as it is written.

    Raises:
      ValueError: if it is none, or holds no values; the message says what to write.

    >>> range_of("log(1e-3, 1)")
    Range(kind='log', low=0.001, high=1.0)
    """
    match = CALL.fullmatch(text)
    if match is None or match[1] not in get_args(RangeKind):
        raise ValueError(f"should be a list of values, or a range: {FORMS}; found '{text}'")
    kind = cast(RangeKind, match[1])
    as_number = int if kind == "integers" else float
    try:
        low, high = map(as_number, match[2].split(","))
    except ValueError:
        numbers = "two integers" if kind == "integers" else "two numbers"
        raise ValueError(f"{kind} takes {numbers}, {kind}(LOW, HIGH); found '{text}'") from None

    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"'{text}' holds no values: LOW has to be below HIGH, and both finite")
    if kind == "log" and low <= 0:
        raise ValueError(f"'{text}': a logarithm needs LOW above 0; write uniform from 0 on")
    return Range(kind, low, high)
