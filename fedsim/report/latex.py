"""Tables in LaTeX, with booktabs and siunitx; how text prints, and about how wide a table is."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedsim.errors import printable

SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedblright{}",
    "±": r"$\pm$",
    "²": "$^2$",
    "−": "$-$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}
LATIN = 0x180  # LaTeX's own fonts have the characters below

# Characters of `\footnotesize` beside each other in a two-column article on A4.
COLUMN = 54
PAGE = 112
SEP = 1.4  # characters between two columns

BEGIN = r"""{\footnotesize
\setlength{\tabcolsep}{3pt}%
\sisetup{detect-weight,retain-explicit-plus}%
"""
END = "}%\n"
ONE_COLUMN = r"\begin{tabular}{@{}l@{}}"  # of blocks
NEXT_BLOCK = " \\\\\n\\\\[-1ex]\n"


class Column(NamedTuple):
    """A column of a table, made of one or several of LaTeX's.

    Attributes:
      heads: lines above it, as plain text.
      parts: the form of each of LaTeX's columns, as in `\\begin{tabular}{...}`, and its cells as
        LaTeX source.
    """

    heads: Sequence[str]
    parts: Sequence[tuple[str, Sequence[str]]]

    def width(self) -> float:
        """About how many characters wide it is, with the space beside it."""
        widths = [max(map(_characters, cells), default=0) for _, cells in self.parts]
        return max(sum(widths), *map(len, self.heads)) + SEP


def width_of(columns: Sequence[Column]) -> float:
    """About how many characters wide some columns are."""
    return sum(column.width() for column in columns) - SEP


def _characters(cell: str) -> int:
    """How many characters LaTeX source prints, about."""
    printed = re.sub(r"\\[a-z]+", "x", cell)
    return len(re.sub(r"[\\{}$^,]", "", printed))


def numbers(head: str, cells: Sequence[str]) -> Column:
    """A column of numbers, aligned on the point.

    Args:
      head: the line above it.
      cells: each a `number` or a `word`.
    """
    return Column([head], [(point_aligned(cells), cells)])


def words(head: str, cells: Sequence[str]) -> Column:
    """A column of words, or of numbers as they are, at the right.

    Args:
      head: the line above it.
      cells: plain text.
    """
    return Column([head], [("r", [escaped(cell) for cell in cells])])


def point_aligned(cells: Sequence[str]) -> str:
    """The form of a column of siunitx with space for these numbers."""
    signs = whole = fraction = ""
    for cell in cells:
        found = re.fullmatch(r"(?:\\bfseries )?([+-]?)(\d+)\.(\d+)", cell)
        if found:
            signs = max(signs, found[1])
            whole = max(whole, found[2], key=len)
            fraction = max(fraction, found[3], key=len)
    return f"S[table-format={signs and '+'}{len(whole)}.{len(fraction)}]"


def number(value: float, digits: int, sign: bool = False) -> str:
    """A number as siunitx reads it.

    Args:
      value: finite.
      digits: after the point.
      sign: whether a positive number has a plus sign; 0 has none.
    """
    shown = f"{value:+z.{digits}f}"
    if not sign or float(shown) == 0:
        shown = shown.removeprefix("+")
    return shown


def word(text: str) -> str:
    """Text in a column of numbers."""
    return f"{{{escaped(text)}}}"


def table_of(blocks: Sequence[Sequence[Column]]) -> str:
    """A table for `\\input`, of blocks of columns that are below each other."""
    tables = [_tabular(columns).rstrip("\n") for columns in blocks]
    if len(tables) == 1:
        return BEGIN + tables[0] + END
    return BEGIN + ONE_COLUMN + "\n" + NEXT_BLOCK.join(tables) + "\n\\end{tabular}" + END


def _tabular(columns: Sequence[Column]) -> str:
    """Columns beside each other; equal heads beside each other are one."""
    cells = {}
    form = ""
    for column in columns:
        heads = [escaped(head) for head in column.heads]
        for part_form, part_cells in column.parts:
            form += part_form
            cells[(*heads, len(cells))] = part_cells  # the number keeps equal heads apart
    style = pd.DataFrame(cells).style.hide(axis="index")
    style = style.hide(axis="columns", level=len(columns[0].heads))
    return style.to_latex(
        column_format=f"@{{}}{form}@{{}}", hrules=True, siunitx=True, multicol_align="c"
    )


def plain(cell: Any) -> str:
    """A cell as text that LaTeX's own fonts have; other characters become their code points.

    >>> plain("naïve 猫")
    'naïve U+732B'
    """
    signs = printable(str(cell))
    known = [sign if ord(sign) < LATIN or sign in SIGNS else f"U+{ord(sign):04X}" for sign in signs]
    return "".join(known)


def escaped(cell: Any) -> str:
    """A cell as LaTeX source.

    >>> print(escaped("trimmed_mean, 5 %"))
    trimmed\\_mean, 5 \\%
    """
    return "".join(SIGNS.get(sign, sign) for sign in plain(cell))
