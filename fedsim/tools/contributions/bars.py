"""What clients contributed, as a bar for each of them."""

from collections.abc import Sequence
from typing import NamedTuple

from fedsim.report.results import Row

MOST = 24  # bars at either end; clients between them are counted


class Bars(NamedTuple):
    """The clients that are drawn.

    Attributes:
      first: rows of the clients that contributed most, from there on downwards.
      last: rows of those that contributed least, in the same order; none where all are in `first`.
      between: how many clients are between the two, and not drawn.
    """

    first: Sequence[Row]
    last: Sequence[Row]
    between: int

    @property
    def rows(self) -> list[Row]:
        """All rows that are drawn."""
        return [*self.first, *self.last]

    @property
    def note(self) -> str:
        """Which clients are not drawn, in words; empty where all are."""
        if not self.between:
            return ""
        return f"{MOST} clients at either end; {self.between} between them are not drawn"


def bars_of(rows: Sequence[Row]) -> Bars:
    """The clients at both ends, or all of them where they are few.

    Args:
      rows: of `contributions.csv`, those that contributed most first.
    """
    between = len(rows) - 2 * MOST
    if between <= 0:
        return Bars(rows, [], 0)
    return Bars(rows[:MOST], rows[-MOST:], between)


def number(value: float) -> str:
    """A contribution as it is written beside its bar.

    >>> number(0.01234), number(-1234.5), number(0.0)
    ('+0.0123', '-1.23e+03', '+0')
    """
    return f"{value:+z.3g}"
