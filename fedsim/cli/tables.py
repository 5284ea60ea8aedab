"""Tables that fit on the screen."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from fedsim.cli.screen import UNLIMITED, rows_of_terms, width

FOLDED = 20  # columns of the screen that a text in a folded column takes at most


def empty_table(titles: Sequence[str], left: Sequence[str], folded: Sequence[str] = ()) -> Table:
    """Return an empty table.

    Args:
      left: those of texts; the others are numbers, aligned on the right.
      folded: those that a screen shows as several lines where there is little room.
    """
    view = Table(box=None, header_style="bold", pad_edge=False)
    for title in titles:
        can_fold = title in folded and width() is not None
        view.add_column(
            title,
            justify="left" if title in left else "right",
            no_wrap=not can_fold,
            max_width=FOLDED if can_fold else None,
        )
    return view


def print_table(view: Table, expendable: Sequence[str] = ()) -> None:
    """Print a table; nothing of a cell is cut.

    Args:
      expendable: the titles of columns that a narrow terminal does without, the first ones
        first. A table that still does not fit is printed as a block of lines for each row.
    """
    limit = width() or UNLIMITED
    titles = [str(column.header) for column in view.columns]
    leaving = [title for title in expendable if title in titles]
    while _measured(view).maximum > limit and leaving:
        view = _without(view, leaving.pop(0))
    for column in view.columns:
        if column.no_wrap:
            column.min_width = max(map(cell_len, map(str, [column.header, *column.cells])))
    needed = _measured(view)
    if needed.minimum <= limit:
        _console(min(needed.maximum, limit)).print(view)
    else:
        print(_as_blocks(view))


def _measured(view: Table) -> Measurement:
    return _console(UNLIMITED).measure(view)


def _console(columns: int) -> Console:
    """A console that shows names as they are, also `fedavg[client.lr=1]`."""
    return Console(width=columns, markup=False, emoji=False)


def _without(view: Table, title: str) -> Table:
    kept = [column for column in view.columns if column.header != title]
    smaller = empty_table(
        [str(column.header) for column in kept],
        left=[str(column.header) for column in kept if column.justify == "left"],
        folded=[str(column.header) for column in kept if not column.no_wrap],
    )
    for row in zip(*(column.cells for column in kept), strict=True):
        smaller.add_row(*row)
    return smaller


def _as_blocks(view: Table) -> str:
    """Return a table as a block for each row: its first cell, and below it title and value."""
    first, *others = view.columns
    longest = max(len(str(column.header)) for column in others)
    blocks = []
    for name, *cells in zip(first.cells, *(column.cells for column in others), strict=True):
        terms = [
            (str(column.header), str(cell))
            for column, cell in zip(others, cells, strict=True)
            if cell
        ]
        blocks.append(f"{name}\n{rows_of_terms(terms, longest)}")
    return "\n".join(blocks)
