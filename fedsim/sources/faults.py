"""Problems of a table: all of them at once, in the order of rows and columns."""

from collections.abc import Callable, Sequence

from fedsim.errors import DataError

MAX_LISTED = 20  # problems that are listed; of the others only their number
WHOLE_COLUMN = -1  # row number of a problem that concerns a whole column


class Faults:
    """Problems of a table's cells.

    Args:
      names: the names of all columns, in order.
      row_name: what the row of a number is called.

    Attributes:
      count: the number of problems.
      first: the first problems: row number, column and text.
      columns: column -> its number of problems, and row number and text of the first.
    """

    def __init__(self, names: Sequence[str], row_name: Callable[[int], str] = "row {}".format):
        self.names = names
        self.row_name = row_name
        self.count = 0
        self.first: list[tuple[int, int, str]] = []
        self.columns: dict[int, tuple[int, int, str]] = {}

    def add(self, number: int, column: int, fault: str) -> None:
        """Add a problem.

        Args:
          number: the number of the row; `WHOLE_COLUMN` for all of them.
          column: the column, from 0.
          fault: what is wrong.
        """
        self.count += 1
        count, first, text = self.columns.get(column, (0, number, fault))
        self.columns[column] = (count + 1, *min((first, text), (number, fault)))
        self.first.append((number, column, fault))
        if len(self.first) >= 10 * MAX_LISTED:
            self.first = sorted(self.first)[:MAX_LISTED]

    def add_to_column(self, column: int, fault: str | None) -> None:
        """Add a problem of a whole column, if there is one."""
        if fault is not None:
            self.add(WHOLE_COLUMN, column, fault)

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
        raise DataError(*lines, by_column=self.by_column())

    def by_column(self) -> dict[str, str]:
        """A line for each column that has problems: the first problem, and how many there are."""
        lines = {}
        for column, (count, number, fault) in sorted(self.columns.items()):
            line = self._line(number, column, fault)
            if count > 1:
                line += f" (and {count - 1:,} more)"
            lines[self.names[column]] = line
        return lines

    def _line(self, number: int, column: int, fault: str) -> str:
        row = "" if number == WHOLE_COLUMN else f"{self.row_name(number)}, "
        return f"{row}column {self.names[column][:40]!a}: {fault}"
