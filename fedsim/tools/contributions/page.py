"""What clients contributed, as one page that opens offline."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from fedsim.report.figures.rows import Shown, rows_on_page
from fedsim.report.page.render import rendered
from fedsim.report.pictures.rows import ZERO, Mark, Rows, span_of
from fedsim.report.pictures.rows import Row as Line
from fedsim.report.results import EMPTY, Cell, Row
from fedsim.tools.contributions.bars import bars_of, number

# column of `contributions.csv` -> its title
COLUMNS = {
    "client": "client",
    "value": "value",
    "low": "95 % from",
    "high": "to",
    "standard_error": "standard error",
    "samples": "samples",
    "rounds": "rounds",
}


def page_of_contributions(
    rows: Sequence[Row], title: str, sentence: str, unit: str, notes: Sequence[str]
) -> bytes:
    """The page.

    Args:
      rows: of `contributions.csv`, those that contributed most first.
      title: of the run.
      sentence: what contributions are.
      unit: what they are shares of, for the axis.
      notes: what to know of them, a sentence each.
    """
    shown = [name for name in COLUMNS if any(row[name] is not None for row in rows)]
    content = {
        "title": f"Contributions of clients: {title}",
        "headline": sentence[:1].upper() + sentence[1:],
        "notes": [*notes, bars_of(rows).note],
        "picture": _picture(rows, unit),
        "table": {
            "head": [COLUMNS[name] for name in shown],
            "groups": [("", [[_cell(row[name]) for name in shown] for row in rows])],
        },
    }
    template = files("fedsim.tools.contributions").joinpath("page.html")
    return rendered(content, template=template)


def _picture(rows: Sequence[Row], unit: str) -> Shown:
    """A row for each client: its contribution, its interval, and its number."""
    lines = []
    for row in bars_of(rows).rows:
        lines.append(Line(f"client {row['client']}", "", 0, [_mark(row)]))
    span = span_of(lines, fixed=[0.0], cut=False)
    return rows_on_page(Rows(lines, span, unit, [ZERO]))


def _mark(row: Row) -> Mark:
    title = f"{row['value']:+z.6g}"
    if row["low"] is not None:
        title += f" ({row['low']:+z.4g} to {row['high']:+z.4g})"
    return Mark(row["value"], row["low"], row["high"], [], True, number(row["value"]), title)


def _cell(value: Any) -> Cell:
    """What a cell shows, and what it is sorted by."""
    if value is None:
        return EMPTY
    if isinstance(value, float):
        return f"{value:.6g}", value
    return str(value), value
