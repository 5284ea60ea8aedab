"""What clients contributed to the score of a run: a bar for each of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedsim.report.figures.drawing import COLOURS, GREY, SMALL, literal, sheet, style
from fedsim.report.results import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 24  # bars at either end; clients between them are counted
LINE = 0.13  # inches of a bar with the space around it
THICK = 0.7  # of that, the bar's share
LONGEST = 20  # letters of a client's name
NUMBERS = 0.58  # inches right of the axes, for the numbers


def figure_of_contributions(rows: Sequence[Row], title: str, unit: str, note: str) -> "Figure":
    """Contributions as bars from 0, those that contributed most on top, each with its number.

    Whiskers are 95 % intervals over seeds, where there are several. Of many clients both ends are
    drawn.
    """
    notes = [note]
    if any(row["low"] is not None for row in rows):
        notes.append("whiskers: 95 % interval over seeds")
    between = len(rows) - 2 * MOST
    if between > 0:
        rows = [*rows[:MOST], *rows[-MOST:]]
        notes.append(f"{MOST} clients at either end; {between} between them are not drawn")

    names = [literal(row["client"], LONGEST) for row in rows]
    left = 0.34 + 0.05 * max(map(len, names))
    height = LINE * max(len(names), 3)
    with style():
        from matplotlib.ticker import MaxNLocator

        figure, (axes,) = sheet(
            title, "; ".join(notes), [height], foot=0.42, left=left, right=NUMBERS
        )
        for line, row in enumerate(rows):
            _bar(axes, line, row)
        axes.axvline(0, lw=0.8, color=GREY, zorder=3)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(max(len(names), 3) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.set_ylabel("client", fontsize=SMALL)
        axes.set_xlabel(unit, fontsize=SMALL)
        return figure


def _bar(axes: "Axes", line: int, row: Row) -> None:
    """Draw the bar of a client with its interval, and write its number right of the axes."""
    value = row["value"]
    colour = COLOURS[0] if value >= 0 else COLOURS[1]
    axes.barh(line, value, height=THICK, color=colour, label="contribution")
    if row["low"] is not None:
        axes.plot([row["low"], row["high"]], [line, line], lw=0.9, color=GREY, label="interval")
    look = {"fontsize": SMALL - 0.5, "color": GREY, "va": "center", "ha": "left"}
    number = f"{value:+z.3g}"
    axes.text(1.02, line, number, transform=axes.get_yaxis_transform(), **look)
