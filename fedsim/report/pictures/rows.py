"""Pictures with a row per name, such as a method: marks on a common axis, and a number."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from fedsim.report.pictures.cut import without_outlier
from fedsim.report.pictures.looks import colour_class

LOGARITHMIC = (
    100.0  # an axis is logarithmic where its largest value is that many times the smallest
)
SHAPES = "osD^"  # of the marks of a row, as matplotlib names them
PERCENTILES = (10, 25, 50, 75, 90)  # of values whose spread is drawn


class Mark(NamedTuple):
    """A number with its interval, and the numbers that it is the mean of.

    Attributes:
      at: the number; None where there is none to draw.
      low: lower end of its interval; None where there is none.
      dots: the numbers behind it.
      title: what a pointer on the row, or a screen reader, tells.
    """

    at: float | None
    low: float | None
    high: float | None
    dots: Sequence[float]
    filled: bool
    text: str
    title: str


class Row(NamedTuple):
    """What a row shows: marks below each other, or how values spread.

    Attributes:
      marks: of the row; the position of a mark decides its shape.
      spread: `PERCENTILES` of values; empty for marks.
    """

    name: str
    note: str
    rank: int
    marks: Sequence[Mark] = ()
    spread: Sequence[float] = ()

    @property
    def numbers(self) -> list[float]:
        """All finite numbers that are drawn."""
        numbers = [*self.spread[:1], *self.spread[-1:]]
        for mark in self.marks:
            for number in (mark.at, mark.low, mark.high, *mark.dots):
                if number is not None and math.isfinite(number):
                    numbers.append(number)
        return numbers

    @property
    def look(self) -> str:
        """The class of its colour on the page."""
        return colour_class(self.rank)

    @property
    def texts(self) -> list[str]:
        """The numbers beside the row."""
        if self.spread:
            return [brief(self.spread[2])]
        return [mark.text for mark in self.marks]

    @property
    def title(self) -> str:
        """What a pointer on the row tells."""
        if self.spread:
            low, _, median, _, high = map(brief, self.spread)
            return f"median {median}, 10th to 90th percentile {low} to {high}"
        return "; ".join(mark.title for mark in self.marks)


class Span(NamedTuple):
    """The ends of an axis, and whether it is logarithmic."""

    low: float
    high: float
    log: bool = False

    def contains(self, number: float) -> bool:
        """Whether a number lies on the axis; not so where the axis is cut."""
        return self.low <= number <= self.high


class Level(NamedTuple):
    """A line through all rows.

    Attributes:
      rank: of the method whose colour it has; None: grey.
      dashes: lengths of dashes and gaps in widths of the line; none: it is solid.
    """

    at: float
    rank: int | None = None
    dashes: tuple[float, ...] = ()


class Key(NamedTuple):
    """An entry of the legend.

    Attributes:
      shape: of a mark; empty: a line through all rows.
    """

    text: str
    shape: str = ""
    filled: bool = True
    level: Level = Level(0.0)


class Rows(NamedTuple):
    """A picture."""

    rows: list[Row]
    span: Span
    label: str
    levels: Sequence[Level] = ()
    keys: Sequence[Key] = ()

    @property
    def beyond(self) -> list[str]:
        """The names of rows with a number beyond an axis that is cut."""
        names = []
        for row in self.rows:
            if not all(map(self.span.contains, row.numbers)):
                names.append(row.name)
        return names


ZERO = Level(0.0)


def finite(value: float | None) -> float | None:
    """A number that can be drawn; None where it is infinite or missing."""
    return None if value is None or not math.isfinite(value) else float(value)


def in_shares(low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """The ends of an interval of shares, within 0 and 1; None where there is none."""
    if low is None or high is None:
        return None, None
    return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


def empty_mark(title: str, text: str = "") -> Mark:
    """A mark without a number."""
    return Mark(at=None, low=None, high=None, dots=[], filled=False, text=text, title=title)


def span_of(
    rows: Sequence[Row], fixed: Sequence[float] = (), share: bool = False, cut: bool = True
) -> Span:
    """The axis of some rows, cut where one of them would squeeze all others.

    Args:
      fixed: numbers that it shows in any case.
      share: whether numbers are shares; the axis stays between 0 and 1.
    """
    numbers = [row.numbers for row in rows]
    shown = [*itertools.chain.from_iterable(numbers), *fixed]
    if cut:
        shown = without_outlier(numbers, fixed)
    low, high = _ends(shown, share)
    if not share and low > 0 and high > LOGARITHMIC * low:
        return Span(low / 1.2, high * 1.2, log=True)
    margin = 0.04 * (high - low)
    if share:
        return Span(max(low - margin, 0.0), min(high + margin, 1.0))
    return Span(low - margin, high + margin)


def _ends(numbers: Sequence[float], share: bool) -> tuple[float, float]:
    """The smallest and the largest number; a little around a single one."""
    if not numbers:
        return 0.0, 1.0
    low = min(numbers)
    high = max(numbers)
    if low < high:
        return low, high
    if share:
        return max(low - 0.05, 0.0), min(high + 0.05, 1.0)
    margin = max(0.5, abs(low) / 20)  # which is not lost in a large number
    return low - margin, high + margin


def brief(value: float, sign: str = "") -> str:
    """A number with three decimals, a large one with three digits.

    A difference that would be zeros has one digit.

    >>> brief(0.25), brief(0.25, sign="+"), brief(-0.0003, sign="+")
    ('0.250', '+0.250', '-0.0003')
    """
    form = ".3f" if abs(value) < 1000 else ".3g"
    if sign and abs(value) < 0.0005:
        form = ".1g"
    return f"{value:{sign}z{form}}"
