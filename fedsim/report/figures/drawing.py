"""How figures are drawn: one style, the same bytes every time, and nothing on stderr.

Importing this imports no matplotlib.
"""

import contextlib
import io
import logging
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from fedsim.errors import printable
from fedsim.report.figures.fonts import FAMILY, list_own_fonts, without_placing
from fedsim.report.pictures.looks import COLOURS as COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Of = TypeVar("Of")

GREY = "#555555"
PALE = "#B8B8B8"
GREYS = ("#CFCFCF", "#8F8F8F", "#3A3A3A")  # of areas that are no method's

WIDE = 3.5  # inches: a column of a paper
HIGH = 8.8  # inches that fit a page with its caption
FRAME = 1.4  # inches of title, small print, axis and legend, about
SMALL = 6.5  # points
LARGE = 9.0
RESOLUTION = 300  # dots per inch of the PNG
DASHED = (0, (4, 3))  # of lines that are no curves

STYLE = {
    "font.family": [FAMILY],
    "font.size": 7.0,
    "text.parse_math": False,  # names are text, even with dollars in them
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.6,
    "axes.titley": 1.0,  # so that nobody looks for ticks that are in a title's way
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": [-3, 5],
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.5,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "svg.fonttype": "path",  # looks alike where the font is missing
    "pdf.fonttype": 42,  # letters stay letters
    "svg.hashsalt": "fedsim",  # the same ids in every process
    "image.composite_image": False,
}
# settings that are no style, and stay as the user has them
NO_STYLE = (
    "backend",
    "interactive",
    "toolbar",
    "timezone",
    "webagg.",
    "tk.",
    "date.",
    "docstring.",
    "figure.hooks",
)

FORMATS = ("png", "svg", "pdf")
# What a run draws when it ends: fonts in a PDF take as long as both, and a paper comes later.
QUICK = ("png", "svg")
# Dates, versions and the like would change the bytes.
METADATA = {
    "png": {"Software": None},
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}

# A sheet is laid out by hand, in inches: nothing that is drawn moves, and nothing is measured.
LEFT = 0.54
RIGHT = 0.10
FOOT = 0.36
GAP = 0.17  # between rows of axes
COLUMN_GAP = 0.16  # between axes that are side by side
TITLE_LINE = 0.16
NOTE_LINE = 0.105
EDGE = 0.06  # above the title
INDENT = 0.08  # left of the title


@contextlib.contextmanager
def style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Apply the style of all figures on top of matplotlib's defaults, whatever the user's are.

    The logger of matplotlib is silent meanwhile: it would report on stderr that it builds its font
    cache, or that the home folder cannot be written.
    """
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        matplotlib = _imported()
        list_own_fonts()
        with warnings.catch_warnings():
            # a character that the font lacks is drawn as a box
            warnings.filterwarnings("ignore", "Glyph", UserWarning)
            settings: Any = {**_defaults(), **STYLE, **(changes or {})}
            with matplotlib.rc_context(settings):
                yield
    finally:
        log.setLevel(level)


def _imported() -> Any:
    """Import matplotlib whatever MPLBACKEND says: figures are drawn without that backend.

    A notebook sets a backend `module://...`. An environment without it cannot import the backend,
    and then matplotlib refuses to be imported. The user's own pyplot gets the backend if it exists.
    """
    if "matplotlib" in sys.modules:
        return sys.modules["matplotlib"]
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with contextlib.suppress(ValueError):
            matplotlib.rcParams["backend"] = backend
    return matplotlib


def _defaults() -> dict[str, Any]:
    """The settings of matplotlib itself, as far as they are style."""
    import matplotlib

    defaults = matplotlib.rcParamsDefault
    with warnings.catch_warnings():
        # reading all of them reads deprecated ones, which are not used here
        warnings.simplefilter("ignore", matplotlib.MatplotlibDeprecationWarning)
        return {name: value for name, value in defaults.items() if not name.startswith(NO_STYLE)}


def sheet(
    title: str,
    note: str,
    heights: Sequence[float],
    foot: float = FOOT,
    left: float = LEFT,
    right: float = RIGHT,
    gap: float = GAP,
    across: int = 1,
) -> tuple["Figure", list["Axes"]]:
    """A figure as wide as a column of a paper, with a title, small print, and axes below.

    Axes come row by row, `across` of them in each. All lengths are inches.
    """
    from fedsim.report.figures.shown import ShownFigure

    titles = textwrap.wrap(literal(title, 132), 44) or [""]
    notes = textwrap.wrap(literal(note, 312), 78)
    above = 0.12 if gap == GAP else 0.22
    head = EDGE + TITLE_LINE * len(titles) + NOTE_LINE * len(notes) + above
    high = head + sum(heights) + gap * (len(heights) - 1) + foot

    figure = ShownFigure(figsize=(WIDE, high))
    indent = INDENT / WIDE
    y = 1 - EDGE / high
    figure.text(indent, y, "\n".join(titles), va="top", fontsize=LARGE, fontweight="bold")
    y -= TITLE_LINE * len(titles) / high
    small_print = {"va": "top", "fontsize": SMALL - 0.5, "color": GREY, "linespacing": 1.15}
    figure.text(indent, y, "\n".join(notes), **small_print)

    axes = []
    top = high - head
    wide = (WIDE - left - right - COLUMN_GAP * (across - 1)) / across
    for height in heights:
        for column in range(across):
            x = left + column * (wide + COLUMN_GAP)
            box = (x / WIDE, (top - height) / high, wide / WIDE, height / high)
            axes.append(figure.add_axes(box))
            axes[-1].yaxis.set_label_coords(-(left - 0.13) / wide, 0.5)
        top -= height + gap
    return figure, axes


def pages(panels: Sequence[Of], inches: Callable[[Of], float]) -> list[list[Of]]:
    """Panels in their order, as many below each other as fit a page; one at least."""
    filled: list[list[Of]] = []
    used = 0.0
    for panel in panels:
        if not filled or used + inches(panel) > HIGH - FRAME:
            filled.append([])
            used = 0.0
        filled[-1].append(panel)
        used += inches(panel)
    return filled


def level_line(axes: "Axes", height: float, label: str) -> None:
    """A dashed line across the axes, below the curves."""
    axes.axhline(height, lw=0.8, ls=DASHED, color=GREY, zorder=1, label=label)


def line_text(axes: "Axes", x: float, height: float, text: str, **alignment: Any) -> None:
    """The text of a level line.

    Args:
      x: of the text, in shares of the axes.
    """
    edge = axes.get_yaxis_transform()
    axes.text(x, height, text, transform=edge, fontsize=SMALL - 0.5, color=GREY, **alignment)


def literal(name: Any, most: int = 40) -> str:
    """A name as a line of text; what cannot be printed is spelled out, what is too long is cut."""
    text = printable(str(name))
    if len(text) <= most:
        return text
    return text[: most - 2] + ".."


def rendered(
    figure: "Figure", name: str, mark: str = "", formats: Sequence[str] = FORMATS
) -> dict[str, bytes]:
    """A figure as the files `name.png`, `name.svg` and `name.pdf`, the same bytes every time."""
    files = {}
    with style():
        if mark:
            _write_mark(figure, mark)
        for form in formats:
            files[f"{name}.{form}"] = _bytes(figure, form)
    return files


def _write_mark(figure: "Figure", mark: str) -> None:
    """The mark along the right edge; only its start where the figure is low."""
    letters_of_an_inch = 20
    if len(mark) > letters_of_an_inch * figure.get_figheight():
        mark = mark.partition(",")[0]
    look = {"fontsize": SMALL - 0.5, "color": COLOURS[1]}
    figure.text(0.998, 0.5, mark, rotation=270, ha="right", va="center", **look)


def _bytes(figure: "Figure", form: str) -> bytes:
    """The figure in a format, whatever the user's own backend is."""
    name = "agg" if form == "png" else form
    backend = import_module(f"matplotlib.backends.backend_{name}")
    backend.FigureCanvas(figure)
    file = io.BytesIO()
    look = {"dpi": RESOLUTION, "metadata": METADATA[form], "facecolor": "white"}
    embedding = without_placing() if form == "pdf" else contextlib.nullcontext()
    with embedding:
        figure.savefig(file, format=form, **look)
    return file.getvalue()
