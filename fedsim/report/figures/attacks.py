"""Methods by attacks as a heat map: mean scores, the worst of every method framed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedsim.report.context import Context
from fedsim.report.figures.drawing import COLOURS, literal, sheet, style
from fedsim.report.pictures.attacks import SHADES, Grid, grids
from fedsim.report.results import Row
from fedsim.study.summary import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTER = 0.055  # inches: width of a letter
CELL = 0.19  # inches: height of a cell
LONGEST = 26  # letters of a name, at most


def figures_of_attacks(summary: Sequence[Row], context: Context) -> list["Figure"]:
    """A heat map for every variation apart from the attack; none where attacks do not vary."""
    return [_figure(grid, context) for grid in grids(summary, context)]


def _figure(grid: Grid, context: Context) -> "Figure":
    metric = in_words(context.metric)
    note = (
        f"{context.score} {metric}, mean over {grid.seeds} seeds; framed: the worst of the method"
    )
    if grid.title:
        note += f"; {grid.title}"
    attacks = [literal(attack, LONGEST) for attack in grid.attacks]
    methods = [literal(method, LONGEST) for method in grid.methods]
    left = 0.12 + LETTER * max(map(len, methods))
    foot = 0.12 + LETTER * max(map(len, attacks))
    with style():
        figure, (axes,) = sheet(context.title, note, [CELL * len(methods)], foot, left, right=0.08)
        _cells(axes, grid)
        axes.set_xticks(range(len(attacks)), attacks, rotation=90)
        axes.set_yticks(range(len(methods)), methods)
        axes.tick_params(length=0)
        return figure


def _cells(axes: "Axes", grid: Grid) -> None:
    """A rectangle for every pair, with its number; darker is better."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    axes.set(xlim=(-0.5, len(grid.attacks) - 0.5), ylim=(len(grid.methods) - 0.5, -0.5))
    axes.grid(False)
    axes.spines[:].set_visible(False)
    for y, cells in enumerate(grid.rows):
        for x, cell in enumerate(cells):
            shade = 0.8 * cell.shade / SHADES
            look = {"fc": colormaps["Blues"](shade), "ec": "white", "lw": 0.5}
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **look))
            ink = "white" if shade > 0.5 else "black"
            axes.text(x, y, cell.text, ha="center", va="center", fontsize=5.5, color=ink)
            if cell.worst:
                frame = {"fill": False, "ec": COLOURS[1], "lw": 1.0, "zorder": 2}
                axes.add_patch(Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, **frame))
