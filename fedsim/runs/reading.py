"""A run directory's tables, read back to the bit."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.disk.tables import COMPUTED
from fedsim.errors import DirectoryError

WORDS = ("method", "baseline", "variant", "tuned", "reason")


@contextlib.contextmanager
def as_written(*paths: Path) -> Iterator[None]:
    """What goes wrong with tables that no run has written is one line: whoever looks into them relies on their columns.

    Raises:
      DirectoryError: instead of what it was.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        where = ", ".join(map(str, paths))
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise DirectoryError(f"{where}: the tables are not as a run writes them ({said})") from error


def read_table(path: Path, name: str, words: Sequence[str] = ()) -> pd.DataFrame | None:
    """One of a run directory's tables; None when it has none of that name.

    Args:
      path: of the run directory.
      name: of the table.
      words: columns that stay text.
    """
    file = path / f"{name}.csv"
    if not file.is_file():
        return None
    try:
        cells = pd.read_csv(file, dtype=str, keep_default_na=False)
        return pd.DataFrame({column: _read_back(column, list(cells[column]), words) for column in cells})
    except (ValueError, OSError) as error:
        raise DirectoryError(f"{file}: cannot be read: {str(error).splitlines()[0]}") from None


def _read_back(column: str, cells: list[str], words: Sequence[str]) -> list[Any]:
    """A column as it was before it was written, to the bit; empty cells are missing."""
    cells = [cell[1:] if cell[:1] == "'" and cell[1:].startswith(COMPUTED) else cell for cell in cells]
    if column in (*WORDS, *words):
        return [cell or None for cell in cells]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return [kind(cell) if cell or kind is int else math.nan for cell in cells]
    return [cell or None for cell in cells]
