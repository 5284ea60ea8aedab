"""Confusion matrices, drawn: a row for each class, a column for each decision."""

from typing import TYPE_CHECKING

from markupsafe import Markup

from fedsim.fields.metrics.confusion import TITLE, Matrix
from fedsim.report.figures.drawing import COLOURS, SMALL, literal, style
from fedsim.report.figures.on_page import page_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WITH_NUMBERS = 12  # classes at most
LETTERS = 14  # of the name of a class
DARKEST = 0.5
PIXELS = 300  # of a picture on the page, without its names
LEFT = 110
BOTTOM = 90


def draw(axes: "Axes", matrix: Matrix, size: float) -> None:
    """Draw a matrix: the larger the share of a class, the darker; with the numbers of samples."""
    from matplotlib.patches import Rectangle

    labels = [literal(name, LETTERS) for name in matrix.labels]
    classes = len(labels)
    for row in range(classes):
        for column in range(classes):
            count = int(matrix.samples[row, column])
            alpha = DARKEST * float(matrix.shares[row, column])
            place = (column - 0.5, row - 0.5)
            look = {"facecolor": COLOURS[0], "alpha": alpha, "lw": 0}
            axes.add_patch(Rectangle(place, 1, 1, **look))
            if classes <= WITH_NUMBERS:
                axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=size)
    axes.set_xlim(-0.5, classes - 0.5)
    axes.set_ylim(classes - 0.5, -0.5)
    shown = range(0, classes, max(1, classes // WITH_NUMBERS))
    rotation = 90 if max(map(len, labels)) > 3 and classes > 3 else 0
    axes.set_xticks(list(shown), [labels[number] for number in shown], rotation=rotation)
    axes.set_yticks(list(shown), [labels[number] for number in shown])
    axes.set_xlabel("taken for")
    axes.grid(visible=False)


def picture(matrix: Matrix) -> Markup:
    """A matrix for the page."""
    from fedsim.report.figures.inline import LETTERS as HEIGHT
    from fedsim.report.figures.inline import PAGE_STYLE, inline

    with style(PAGE_STYLE):
        axes = page_axes((PIXELS + LEFT, PIXELS + BOTTOM), BOTTOM, LEFT)
        draw(axes, matrix, HEIGHT)
        return inline(axes.figure, f"{TITLE}, {matrix.name}")  # pyright: ignore


def draw_small(axes: "Axes", matrix: Matrix) -> None:
    """Draw a matrix in a figure."""
    draw(axes, matrix, SMALL)
    axes.set_title(literal(matrix.name, 34), fontsize=SMALL, loc="left", pad=2.5)
    axes.set_ylabel("class")
