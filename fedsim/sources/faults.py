"""Problems of a table: all of them at once, in the order of rows and columns."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from fedsim.errors import DataError

MAX_LISTED = 20  # problems that are listed; of the others only their number
WHOLE_COLUMN = -1  # row of a problem that concerns a whole column


class Faults:
    """Problems of a table's cells, whose rows, counted from 0, have names."""

    def __init__(self, names: Sequence[str], row_name: Callable[[int], str] = "row {}".format):
        self.names = names
        self.row_name = row_name
        self.counts: Counter[int] = Counter()
        self._first: list[tuple[int, int, str]] = []  # row, column, problem

    def add(self, column: int, wrong: np.ndarray, fault: str | Callable[[int], str]) -> None:
        """Add a problem of each of the marked rows `[n]`; its text may depend on the row."""
        rows = np.flatnonzero(wrong).tolist()
        self.counts[column] += len(rows)
        for row in rows[:MAX_LISTED]:
            self._first.append((row, column, fault if isinstance(fault, str) else fault(row)))

    def add_to_column(self, column: int, fault: str | None) -> None:
        """Add a problem of a whole column, if there is one."""
        if fault is not None:
            self.counts[column] += 1
            self._first.append((WHOLE_COLUMN, column, fault))

    def raise_any(self) -> None:
        """Raise one error with a line for each of the first problems, if there are any."""
        if not self._first:
            return
        lines = [self._line(*fault) for fault in sorted(self._first)[:MAX_LISTED]]
        total = self.counts.total()
        if total > len(lines):
            lines.append(f"and {total - len(lines):,} more problems")
        raise DataError(*lines, by_column=self.by_column())

    def by_column(self) -> dict[str, str]:
        """A line for each column that has problems: the first problem, and how many there are."""
        lines = {}
        for row, column, fault in sorted(self._first, key=lambda fault: (fault[1], fault[0])):
            more = self.counts[column] - 1
            line = self._line(row, column, fault) + (f" (and {more:,} more)" if more else "")
            lines.setdefault(self.names[column], line)
        return lines

    def _line(self, row: int, column: int, fault: str) -> str:
        where = "" if row == WHOLE_COLUMN else f"{self.row_name(row)}, "
        return f"{where}column {self.names[column][:40]!a}: {fault}"
