"""Columns of a LaTeX table whose width is known, laid out for a column or the page of a two-column article.

Numbers are aligned on the point by pairs of plain columns, `r@{.}l`: booktabs is all that is needed.
"""

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from fedsim.report.latex import escaped, plain, width

Part = tuple[str, float]  # LaTeX, and how wide it is in points

COLUMN, PAGE = (
    221.0,
    453.0,
)  # points: a column and the text of a two-column article on A4, the narrowest of the usual ones
SEP = 3.0  # points on either side of a column
LINES = 45  # of a table that is one column wide; a longer one is as wide as the page
LONGEST = 60  # letters of a name; more are cut
THIN, SIGN, RAISED = (
    1.5,
    6.7,
    4.0,
)  # points of a thin space, of `±` or `−`, and of a raised digit or dagger


class Column(NamedTuple):
    """A column of the table, of one or several of LaTeX's.

    Attributes:
      form: of each of those, as in `\\begin{tabular}{...}`.
      heads: lines above it.
      cells: by row, the parts of each; a single part spans all of them.
    """

    form: tuple[str, ...]
    heads: Sequence[str]
    cells: Sequence[Sequence[Part]]

    @property
    def points(self) -> float:
        """How wide it is."""
        return points_of([self])

    def row(self, place: int, last: bool) -> str:
        """LaTeX of one of its cells; the last column has nothing right of it."""
        cell = self.cells[place]
        if len(cell) < len(self.form):
            return self._spanned(cell[0][0], last)
        return " & ".join(part for part, _ in cell)

    def head(self, place: int, last: bool) -> str:
        """LaTeX of one of the lines above it."""
        return self._spanned(escaped(self.heads[place]), last)

    def _spanned(self, text: str, last: bool) -> str:
        return (
            f"\\multicolumn{{{len(self.form)}}}{{c{'@{}' * last}}}{{{text}}}"
            if len(self.form) > 1
            else text
        )


NUMBER = ("r@{.}", "l")  # of columns of numbers


def number(value: float, digits: int, sign: bool = False, bold: bool = False) -> list[Part]:
    """A number as two parts around its point."""
    whole, _, fraction = f"{abs(value):.{digits}f}".partition(".")
    before = "$-$" if value < 0 else "$+$" if sign else ""
    wide = SIGN if before else 0.0
    if bold:
        return [
            (f"{before}\\textbf{{{whole}}}", wide + width(whole, True)),
            (f"\\textbf{{{fraction}}}", width(fraction, True)),
        ]
    return [(before + whole, wide + width(whole)), (fraction, width(fraction))]


def word(text: str) -> list[Part]:
    """Text that spans a column of numbers."""
    return [(escaped(text), width(plain(text)))]


def names_column(names: Sequence[str], heads: Sequence[str], broken: bool = False) -> Column:
    """The first column: names, cut where they are very long; `broken`: before the bracket, where that makes it narrower."""
    texts = [
        name if len(name) <= LONGEST else name[: LONGEST - 2] + ".." for name in map(plain, names)
    ]
    parts = [text.partition("(") for text in texts]
    halves = [
        max(width(start), width(f" ({rest}")) if bracket else width(start)
        for start, bracket, rest in parts
    ]
    least = max([*halves, *map(width, heads)]) if broken else math.inf
    cells = []
    for text, half, (start, _, rest) in zip(texts, halves, parts, strict=True):
        if width(text) > least:
            lines = f"{escaped(start)}\\\\\\ {escaped(f'({rest}')}"
            cells.append([(f"\\begin{{tabular}}[t]{{@{{}}l@{{}}}}{lines}\\end{{tabular}}", half)])
        else:
            cells.append([(escaped(text), width(text))])
    return Column(("l",), heads, cells)


def points_of(*blocks: Sequence[Column]) -> float:
    """How wide blocks of columns are, with nothing left and right of them, that stand one below the other."""
    total = 0.0
    for together in zip_longest(*blocks):
        columns = [column for column in together if column is not None]
        whole = [
            [points for _, points in cell]
            for column in columns
            for cell in column.cells
            if len(cell) == len(column.form)
        ]
        spans = [
            cell[0][1]
            for column in columns
            for cell in column.cells
            if len(cell) < len(column.form)
        ]
        heads = [width(plain(head)) for column in columns for head in column.heads]
        parts = sum(map(max, zip(*whole, strict=True))) + width(".") * sum(
            "." in form for form in columns[0].form
        )
        total += max([parts, *spans, *heads])
    return total + 2 * SEP * (max(map(len, blocks)) - 1)


def fitting(names: Column, columns: Sequence[Column], limit: float = COLUMN) -> list[Column]:
    """The first of some columns beside the names, as many as fit."""
    while columns and points_of([names, *columns]) > limit:
        columns = columns[:-1]
    return list(columns)


def blocks_of(names: Column, columns: Sequence[Column]) -> list[list[Column]]:
    """Columns in blocks that stand one below the other, as few as fit a column or, where they are too long for one, the page.

    What is wider than the page is left so: a single column per block.
    """
    lines = len(names.cells) + len(names.heads)
    for limit in (COLUMN, PAGE):
        for count in range(1, len(columns) + 1):
            abreast = -(-len(columns) // count)
            blocks = [list(columns[i : i + abreast]) for i in range(0, len(columns), abreast)]
            wide = points_of(*([names, *block] for block in blocks))
            if wide <= limit and len(blocks) * lines <= LINES:
                return blocks
    return [[column] for column in columns]


def tabular(names: Column, blocks: Sequence[Sequence[Column]]) -> list[str]:
    """The lines of the table, `\\footnotesize` and booktabs' rules."""
    forms = ["".join(column.form) for column in (names, *blocks[0])]
    parts = sum(len(column.form) for column in blocks[0])
    lines = [
        "{\\footnotesize",
        f"\\setlength{{\\tabcolsep}}{{{SEP:g}pt}}%",
        f"\\begin{{tabular}}{{@{{}}{''.join(forms)}@{{}}}}",
    ]
    for place, block in enumerate(blocks):
        empty = [" "] * (parts - sum(len(column.form) for column in block))
        lines.append("\\midrule" if place else "\\toprule")
        beside = [(column, column is block[-1] and not empty) for column in (names, *block)]
        heads = [[column.head(i, last) for column, last in beside] for i in range(len(names.heads))]
        rows = [[column.row(i, last) for column, last in beside] for i in range(len(names.cells))]
        body = [" & ".join([*row, *empty]) + " \\\\" for row in (*heads, *rows)]
        lines += [*body[: len(heads)], "\\midrule", *body[len(heads) :]]
    return [*lines, "\\bottomrule", "\\end{tabular}}%"]


def digits_of(spreads: Sequence[float | None], least: int = 2) -> int:
    """Decimals by which the smallest spread still has a digit, from `least` to 4; 4 where there is none."""
    known = [spread for spread in spreads if spread and math.isfinite(spread)]
    return min(max(math.ceil(-math.log10(min(known))), least), 4) if known else 4
