"""A LaTeX table of known width, laid out for a column or the page of a two-column article.

Numbers are aligned on the point by pairs of plain columns, `r@{.}l`: only booktabs is needed.
"""

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from fedsim.report.latex import escaped, plain, width

Fragment = tuple[str, float]
"""LaTeX source, and its width in points"""

# Points: a column and the text width of a two-column article on A4, the narrowest usual ones.
COLUMN = 221.0
PAGE = 453.0
SEP = 3.0  # points on either side of a column
LINES = 45  # lines of a table that is one column wide, at most; a longer one is as wide as the page
LONGEST = 60  # characters of a name, at most
THIN = 1.5  # points of a thin space
SIGN = 6.7  # points of `±` or `−`
RAISED = 4.0  # points of a raised digit or dagger

NUMBER = ("r@{.}", "l")  # LaTeX's columns of a number


class Column(NamedTuple):
    """A column of the table, made of one or several of LaTeX's.

    Attributes:
      form: of each of those, as in `\\begin{tabular}{...}`.
      heads: lines above it.
      cells: by row, the parts of each; a single part spans all of LaTeX's columns.
    """

    form: tuple[str, ...]
    heads: Sequence[str]
    cells: Sequence[Sequence[Fragment]]

    def row(self, index: int, last: bool) -> str:
        """LaTeX source of a cell.

        Args:
          index: of the row.
          last: whether no column is to the right.
        """
        cell = self.cells[index]
        if len(cell) < len(self.form):
            return self._spanned(cell[0][0], last)
        return " & ".join(text for text, _ in cell)

    def head(self, index: int, last: bool) -> str:
        """LaTeX source of a line above the column.

        Args:
          index: of the line.
          last: whether no column is to the right.
        """
        return self._spanned(escaped(self.heads[index]), last)

    def _spanned(self, text: str, last: bool) -> str:
        if len(self.form) == 1:
            return text
        form = "c@{}" if last else "c"
        return f"\\multicolumn{{{len(self.form)}}}{{{form}}}{{{text}}}"


def number(value: float, digits: int, sign: bool = False, bold: bool = False) -> list[Fragment]:
    """A number as two parts, before and after its point.

    Args:
      value: finite.
      digits: after the point.
      sign: whether a positive number has a plus sign.
      bold: whether it is bold.
    """
    digits_shown = f"{abs(value):.{digits}f}"
    integer, _, fraction = digits_shown.partition(".")
    is_zero = float(digits_shown) == 0  # then neither −0.00 nor +0.00
    before = ""
    if value < 0 and not is_zero:
        before = "$-$"
    elif sign and not is_zero:
        before = "$+$"

    left_width = width(integer, bold)
    right_width = width(fraction, bold)
    if before:
        left_width += SIGN
    if bold:
        integer = f"\\textbf{{{integer}}}"
        fraction = f"\\textbf{{{fraction}}}"
    return [(before + integer, left_width), (fraction, right_width)]


def word(text: str) -> list[Fragment]:
    """Text that spans a column of numbers."""
    return [(escaped(text), width(plain(text)))]


def names_column(names: Sequence[str], heads: Sequence[str], broken: bool = False) -> Column:
    """The first column: names of methods; very long ones are cut.

    Args:
      names: of the methods.
      heads: lines above them.
      broken: names are broken before their bracket where that makes the column narrower.
    """
    texts = [_cut(plain(name)) for name in names]
    limit = math.inf
    if broken:
        limit = max([*map(width, heads), *map(_broken_width, texts)])
    cells = [[_name(text, limit)] for text in texts]
    return Column(("l",), heads, cells)


def _cut(name: str) -> str:
    if len(name) <= LONGEST:
        return name
    return name[: LONGEST - 2] + ".."


def _broken_width(name: str) -> float:
    """The width of a name that is broken before its bracket."""
    start, bracket, rest = name.partition("(")
    if not bracket:
        return width(start)
    return max(width(start), width(f" ({rest}"))


def _name(name: str, limit: float) -> Fragment:
    """A name, broken before its bracket where it would be wider than `limit` points."""
    if width(name) <= limit:
        return escaped(name), width(name)
    start, _, rest = name.partition("(")
    lines = f"{escaped(start)}\\\\\\ {escaped(f'({rest}')}"
    return f"\\begin{{tabular}}[t]{{@{{}}l@{{}}}}{lines}\\end{{tabular}}", _broken_width(name)


def points_of(*blocks: Sequence[Column]) -> float:
    """The width of blocks of columns that are below each other, without the outer margins."""
    total = 0.0
    for below in zip_longest(*blocks):
        columns = [column for column in below if column is not None]
        total += _width_of(columns)
    separators = max(map(len, blocks)) - 1
    return total + 2 * SEP * separators


def _width_of(columns: Sequence[Column]) -> float:
    """The width of columns that are below each other: the widest head, cell, or row of parts."""
    form = columns[0].form
    widest = 0.0  # of heads, and of cells that span all of LaTeX's columns
    column_widths = [0.0] * len(form)
    for column in columns:
        for head in column.heads:
            widest = max(widest, width(plain(head)))
        for cell in column.cells:
            if len(cell) < len(form):
                _, points = cell[0]
                widest = max(widest, points)
            else:
                for index, (_, points) in enumerate(cell):
                    column_widths[index] = max(column_widths[index], points)
    dots = sum("." in column_form for column_form in form)
    return max(sum(column_widths) + width(".") * dots, widest)


def fitting(names: Column, columns: Sequence[Column], limit: float = COLUMN) -> list[Column]:
    """The first of some columns, as many as fit beside the names."""
    while columns and points_of([names, *columns]) > limit:
        columns = columns[:-1]
    return list(columns)


def blocks_of(names: Column, columns: Sequence[Column]) -> list[list[Column]]:
    """Columns in blocks that are below each other.

    As few blocks as fit a column; where they are too long for that, as fit the page. What is wider
    than the page stays so: a single column per block.
    """
    lines = len(names.cells) + len(names.heads)
    for limit in (COLUMN, PAGE):
        for count in range(1, len(columns) + 1):
            side_by_side = -(-len(columns) // count)
            blocks = []  # of the columns beside the names
            whole = []  # with the names
            for start in range(0, len(columns), side_by_side):
                block = list(columns[start : start + side_by_side])
                blocks.append(block)
                whole.append([names, *block])
            if points_of(*whole) <= limit and len(blocks) * lines <= LINES:
                return blocks
    return [[column] for column in columns]


def tabular(names: Column, blocks: Sequence[Sequence[Column]]) -> list[str]:
    """The lines of the table, in `\\footnotesize` with booktabs' rules."""
    form = ""
    for column in (names, *blocks[0]):
        form += "".join(column.form)
    lines = [
        "{\\footnotesize",
        f"\\setlength{{\\tabcolsep}}{{{SEP:g}pt}}%",
        f"\\begin{{tabular}}{{@{{}}{form}@{{}}}}",
    ]
    columns_of_first = _latex_columns(blocks[0])
    for index, block in enumerate(blocks):
        lines.append("\\toprule" if index == 0 else "\\midrule")
        lines += _block(names, block, empty=columns_of_first - _latex_columns(block))
    return [*lines, "\\bottomrule", "\\end{tabular}}%"]


def _latex_columns(block: Sequence[Column]) -> int:
    """How many of LaTeX's columns a block has."""
    return sum(len(column.form) for column in block)


def _block(names: Column, block: Sequence[Column], empty: int) -> list[str]:
    """The lines of a block.

    Args:
      names: the first column.
      block: the others.
      empty: LaTeX's columns that the first block has more.
    """
    columns = [names, *block]
    last = None if empty else columns[-1]
    lines = []
    for index in range(len(names.heads)):
        heads = [column.head(index, column is last) for column in columns]
        lines.append(_line(heads, empty))

    lines.append("\\midrule")
    for index in range(len(names.cells)):
        cells = [column.row(index, column is last) for column in columns]
        lines.append(_line(cells, empty))
    return lines


def _line(cells: Sequence[str], empty: int) -> str:
    """A line of the table: its cells, and so many empty ones behind them."""
    empty_cells = [" "] * empty
    return " & ".join([*cells, *empty_cells]) + " \\\\"


def digits_of(spreads: Sequence[float | None], least: int = 2) -> int:
    """Decimals with which the smallest spread still has a digit, from `least` to 4.

    Args:
      spreads: standard deviations or the like; 4 decimals where none is known.
      least: decimals at least.
    """
    positive = [spread for spread in spreads if spread and math.isfinite(spread)]
    if not positive:
        return 4
    digits = math.ceil(-math.log10(min(positive)))
    return min(max(digits, least), 4)
