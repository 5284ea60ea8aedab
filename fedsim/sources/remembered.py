"""The columns of a table as samples were made of them: what new tables are read by."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsim.sources.cells import DECIDING_ROWS, Parser, parse_comma_number

BLANK_CATEGORY = "(blank)"
MIN_IDS = 20  # rows of a table, from which on columns that differ in all of them look like ids
SIGNS = " $€£¥%"  # around numbers
IF_ONE = "if it is one,"
PLAIN = "write plain numbers, or"


class TableColumn(NamedTuple):
    """A column of a table.

    Attributes:
      name: its name.
      kind: `numbers`, `dates` or `text`; empty where it is no feature.
      categories: of text, those that are a feature each, in order; `BLANK_CATEGORY` is the last
        where blanks are one.
      remark: what a user may not have meant with it, up to "leave it out"; empty: nothing.
    """

    name: str
    kind: str = ""
    categories: tuple[str, ...] = ()
    remark: str = ""

    @property
    def titles(self) -> list[str]:
        """The names of its features."""
        if self.kind == "text":
            return [f"{self.name}={category}" for category in self.categories]
        return [self.name] if self.kind else []


def columns_of_numbers(x: np.ndarray, names: Sequence[str] | None = None) -> list[TableColumn]:
    """Return the columns of features `[n, F]`, by default called `feature 0`, `feature 1` ..."""
    names = names or [f"feature {j}" for j in range(x.shape[1])]
    return [
        TableColumn(name, "numbers", remark=remark_on_numbers(name, x[:, j]))
        for j, name in enumerate(names)
    ]


def remark_on_numbers(name: str, values: np.ndarray) -> str:
    """Return what is remarkable about a feature `[n]`: that it has the values of an id."""
    return _remark_on_ids(name, "whole number", len(values)) if _all_differ(values) else ""


def remark_on_texts(name: str, categories: Sequence[str], rows: int, parse: Parser) -> str:
    """Return what is remarkable about a column of text.

    Args:
      name: the column's name.
      categories: its texts, each once.
      rows: the number of rows.
      parse: what makes numbers of cells in the table.
    """
    marked = [text for text in categories if _is_marked_number(text, parse)]
    if marked and 2 * len(marked) >= len(categories):
        numbers = f"numbers with signs or separators ({marked[0][:40]!a})"
        return f"{_column(name)} holds {numbers}, and each of its texts is a feature; {PLAIN}"
    if len(categories) == rows:
        return _remark_on_ids(name, "text", rows)
    return ""


def _remark_on_ids(name: str, noun: str, rows: int) -> str:
    """The remark on a column with a value of its own in every row."""
    is_index = name == "" or name.startswith(("Unnamed: ", "__index_level_"))
    if is_index:
        return f"{_column(name)} counts the rows, as the index that pandas writes; {IF_ONE}"
    if rows < MIN_IDS:
        return ""
    return f"{_column(name)} has another {noun} in each of {rows:,} rows, as ids have; {IF_ONE}"


def _column(name: str) -> str:
    return name if name.startswith("feature ") else f"column {name[:40]!a}"


def _all_differ(values: np.ndarray) -> bool:
    """Whether values `[n]` are whole numbers, each of which occurs once.

    Floats that are so large that all of them are whole say nothing.
    """
    if values.dtype.kind == "f":
        values = np.asarray(values)
        if np.abs(values).max(initial=0) >= 2 ** np.finfo(values.dtype).nmant:
            return False
    for part in (values[:DECIDING_ROWS], values):  # the first rows settle most columns
        if len(np.unique(part)) < len(part) or not (np.floor(part) == part).all():
            return False
    return len(values) > 1


def _is_marked_number(text: str, parse: Parser) -> bool:
    """Whether a text is a number but for signs around it, or separators between its thousands.

    >>> from fedsim.sources.cells import parse_number
    >>> [_is_marked_number(text, parse_number) for text in ("$1.23", "4.2%", "1,234.5", "A1", "7")]
    [True, True, True, False, False]
    """
    separator = "." if parse is parse_comma_number else ","
    number = text.translate(str.maketrans("", "", SIGNS))
    number = re.sub(rf"(?<=\d)[{separator}](?=\d\d\d(\D|$))", "", number)
    return number != text and parse(number) is not None
