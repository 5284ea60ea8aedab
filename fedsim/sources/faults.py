"""What is wrong in a table: all of it at once, in the order of rows and columns."""

from collections.abc import Sequence

from fedsim.errors import DataError

LISTED = 20  # problems that are told; of more, how many there are
MOST = 1_000_000  # problems, after which nothing more is read


class Faults:
    """Problems of a table's cells.

    Args:
      unit: what a number counts, `line` or `row`.
      names: of all columns, in their order.
    """

    def __init__(self, unit: str, names: Sequence[str]):
        self.unit, self.names = unit, names
        self.first: list[tuple[int, int, str]] = []
        self.count = 0
        self.columns: dict[
            int, tuple[int, int, str]
        ] = {}  # place of a column -> its problems, the first of them

    def add(self, number: int, column: int, fault: str) -> None:
        """A problem in a line or row (0-based place of the column; -1: of all of it; number -1: of the whole column).

        Raises:
          DataError: as `raise_any` does, where there are too many to go on.
        """
        self.count += 1
        count, first, text = self.columns.get(column, (0, number, fault))
        self.columns[column] = (count + 1, *min((first, text), (number, fault)))
        self.first.append((number, column, fault))
        if len(self.first) >= 10 * LISTED:
            self.first = sorted(self.first)[:LISTED]
        if self.count >= MOST:
            self.raise_any()

    def raise_any(self) -> None:
        """One error with a line for each of the first problems; nothing where there is none.

        Raises:
          DataError: naming rows and columns.
        """
        if not self.count:
            return
        lines = [self._line(*fault) for fault in sorted(self.first)[:LISTED]]
        more = [f"and {self.count - len(lines):,} more problems"] if self.count > len(lines) else []
        more += [f"the table was read up to the problem {MOST:,}"] if self.count >= MOST else []
        raise DataError(*lines, *more, by_column=self.by_column())

    def by_column(self) -> dict[str, str]:
        """A line for each column that has problems: the first one, and how many there are."""
        lines = {}
        for column, (count, number, fault) in sorted(self.columns.items()):
            name = self.names[column] if column >= 0 else ""
            more = f" (and {count - 1:,} more)" if count > 1 else ""
            lines[name] = self._line(number, column, fault) + more
        return lines

    def _line(self, number: int, column: int, fault: str) -> str:
        where = [f"{self.unit} {number}"] if number >= 0 else []
        where += [f"column {self.names[column][:40]!a}"] if column >= 0 else []
        return f"{', '.join(where)}: {fault}"
