"""Problems of a table: all of them at once, in the order of rows and columns."""

from collections.abc import Sequence

from fedsim.errors import DataError

MAX_LISTED = 20  # problems that are listed; of the others only their number
MAX_PROBLEMS = 1_000_000  # after which reading stops
WHOLE_COLUMN = -1  # row number of a problem that concerns a whole column
WHOLE_ROW = -1  # column of a problem that concerns a whole row


class Faults:
    """Problems of a table's cells.

    Args:
      unit: what row numbers count, `line` or `row`.
      names: the names of all columns, in order.

    Attributes:
      count: the number of problems.
      first: the first problems: row number, column and text.
      columns: column -> its number of problems, and row number and text of the first.
      unreadable: row number and column of the cells whose value could not be read.
    """

    def __init__(self, unit: str, names: Sequence[str]):
        self.unit = unit
        self.names = names
        self.count = 0
        self.first: list[tuple[int, int, str]] = []
        self.columns: dict[int, tuple[int, int, str]] = {}
        self.unreadable: set[tuple[int, int]] = set()

    def add(self, number: int, column: int, fault: str) -> None:
        """Add a problem.

        Args:
          number: the number of the line or row; `WHOLE_COLUMN` for all of them.
          column: the column, from 0; `WHOLE_ROW` for all of them.
          fault: what is wrong.

        Raises:
          DataError: as `raise_any` does, where there are too many to continue.
        """
        if (number, column) in self.unreadable:
            return
        self.count += 1
        count, first, text = self.columns.get(column, (0, number, fault))
        self.columns[column] = (count + 1, *min((first, text), (number, fault)))
        self.first.append((number, column, fault))
        if len(self.first) >= 10 * MAX_LISTED:
            self.first = sorted(self.first)[:MAX_LISTED]
        if self.count >= MAX_PROBLEMS:
            self.raise_any()

    def add_to_column(self, column: int, fault: str | None) -> None:
        """Add a problem of a whole column, if there is one."""
        if fault is not None:
            self.add(WHOLE_COLUMN, column, fault)

    def add_unreadable(self, number: int, column: int, fault: str) -> None:
        """Add the problem of a cell that could not be read; that it is blank is then no other."""
        self.add(number, column, fault)
        self.unreadable.add((number, column))

    def raise_any(self) -> None:
        """Raise one error with a line for each of the first problems, if there are any.

        Raises:
          DataError: naming rows and columns.
        """
        if not self.count:
            return
        lines = [self._line(*fault) for fault in sorted(self.first)[:MAX_LISTED]]
        if self.count > len(lines):
            lines.append(f"and {self.count - len(lines):,} more problems")
        if self.count >= MAX_PROBLEMS:
            lines.append(f"reading stopped after {MAX_PROBLEMS:,} problems")
        raise DataError(*lines, by_column=self.by_column())

    def by_column(self) -> dict[str, str]:
        """A line for each column that has problems: the first problem, and how many there are."""
        lines = {}
        for column, (count, number, fault) in sorted(self.columns.items()):
            name = "" if column == WHOLE_ROW else self.names[column]
            line = self._line(number, column, fault)
            if count > 1:
                line += f" (and {count - 1:,} more)"
            lines[name] = line
        return lines

    def _line(self, number: int, column: int, fault: str) -> str:
        where = []
        if number != WHOLE_COLUMN:
            where.append(f"{self.unit} {number}")
        if column != WHOLE_ROW:
            where.append(f"column {self.names[column][:40]!a}")
        return f"{', '.join(where)}: {fault}"
