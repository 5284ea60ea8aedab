"""Tables in LaTeX, with booktabs and siunitx; and how text prints."""

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
NUMBER = re.compile(r"([+-]?)(\d+)(?:\.(\d+))?")
LATIN = 0x180  # LaTeX's own fonts have the characters below

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


def column(head: str, cells: Sequence[str]) -> Column:
    """A column of plain text, numbers aligned on the point."""
    shown = [cell if NUMBER.fullmatch(cell) else word(cell) for cell in cells]
    if shown == [word(cell) for cell in cells]:
        return Column([head], [("r", [escaped(cell) for cell in cells])])
    return Column([head], [(point_aligned(shown), shown)])


def point_aligned(cells: Sequence[str]) -> str:
    """The form of a column of siunitx with space for these numbers."""
    signs = whole = fraction = ""
    for cell in cells:
        found = NUMBER.fullmatch(cell.removeprefix("\\bfseries "))
        if found:
            signs = max(signs, found[1])
            whole = max(whole, found[2], key=len)
            fraction = max(fraction, found[3] or "", key=len)
    point = f".{len(fraction)}" if fraction else ""
    return f"S[table-format={signs and '+'}{len(whole)}{point}]"


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
