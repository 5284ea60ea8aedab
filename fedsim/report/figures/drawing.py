"""How figures are drawn: one style, the same bytes again, and no word on stderr. Importing this imports no matplotlib."""

import contextlib
import io
import logging
import os
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedsim.errors import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which the colour-blind tell apart; in place of its yellow, pale on paper, Tol's olive
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#999933")
GREY, PALE = "#555555", "#B8B8B8"
WIDE, HIGH = 3.5, 8.8  # inches: a column of a paper, and what fits a page with its caption
SMALL, LARGE = 6.5, 9.0  # points
RESOLUTION = 300  # dots per inch of the PNG
STYLE = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib
    "font.size": 7.0,
    "text.parse_math": False,  # names are text, whatever dollars are in them
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.6,
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
    "svg.hashsalt": "fedsim",  # ids that do not change from one process to the next
    "image.composite_image": False,
}
FORMATS = ("png", "svg", "pdf")
QUICK = (
    "png",
    "svg",
)  # those that a run draws when it ends; fonts in a PDF take as long as both, and a paper comes later
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
# a sheet is laid out by hand, in inches: nothing that is drawn ever moves, and nothing has to be measured
LEFT, RIGHT, FOOT, GAP = 0.54, 0.10, 0.36, 0.17
TITLE_LINE, NOTE_LINE, BESIDE = 0.16, 0.105, 0.16


@contextlib.contextmanager
def style() -> Iterator[None]:
    """The settings of all figures on top of matplotlib's defaults, whatever the user's are; its logger is silent meanwhile.

    It would otherwise report on stderr that it builds its font cache, or that the home folder cannot be written.
    """
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        matplotlib = _imported()
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Glyph", UserWarning
            )  # a character that the font lacks is drawn as a box
            settings: Any = {**_defaults(), **STYLE}
            with matplotlib.rc_context(settings):
                yield
    finally:
        log.setLevel(level)


def _imported() -> Any:
    """matplotlib, imported whatever MPLBACKEND says: a figure is drawn by Agg, SVG and PDF, and never by that backend.

    A notebook names one there, `module://...`, which an environment without it cannot import, and matplotlib then refuses
    to be imported. What is left to the user's own pyplot is what they have asked for, as far as it is there.
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
    import matplotlib

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", matplotlib.MatplotlibDeprecationWarning
        )  # of names that we do not use
        return {
            name: value
            for name, value in matplotlib.rcParamsDefault.items()
            if not name.startswith(NO_STYLE)
        }


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
    """A figure as wide as a column of a paper, with a title, small print below it, and axes one below the other.

    Axes come row by row, and there are as many as rows times `across`.

    Args:
      title: of the sheet.
      note: small print.
      heights: of the rows of axes, inches.
      foot: inches below the last axes.
      left: inches beside them.
      right: likewise.
      gap: between two rows.
      across: axes in a row.
    """
    from matplotlib.figure import Figure

    titles, notes = (
        textwrap.wrap(literal(title, 132), 44) or [""],
        textwrap.wrap(literal(note, 312), 78),
    )
    head = 0.06 + TITLE_LINE * len(titles) + NOTE_LINE * len(notes) + (0.12 if gap == GAP else 0.22)
    high = head + sum(heights) + gap * (len(heights) - 1) + foot
    figure = Figure(figsize=(WIDE, high))
    y = 1 - 0.06 / high
    figure.text(0.08 / WIDE, y, "\n".join(titles), va="top", fontsize=LARGE, fontweight="bold")
    y -= TITLE_LINE * len(titles) / high
    figure.text(
        0.08 / WIDE,
        y,
        "\n".join(notes),
        va="top",
        fontsize=SMALL - 0.5,
        color=GREY,
        linespacing=1.15,
    )
    axes, top = [], high - head
    wide = (WIDE - left - right - BESIDE * (across - 1)) / across
    for height in heights:
        for place in range(across):
            x = left + place * (wide + BESIDE)
            axes.append(
                figure.add_axes((x / WIDE, (top - height) / high, wide / WIDE, height / high))
            )
            axes[-1].yaxis.set_label_coords(-(left - 0.13) / wide, 0.5)
        top -= height + gap
    return figure, axes


def literal(name: Any, most: int = 40) -> str:
    """A name as a line of text; what cannot be printed is spelled out, what is too long is cut."""
    text = printable(str(name))
    return text if len(text) <= most else text[: most - 2] + ".."


def rendered(
    figure: "Figure", name: str, mark: str = "", formats: Sequence[str] = FORMATS
) -> dict[str, bytes]:
    """A figure as files, the same bytes for the same figure: `name.png`, `name.svg` and `name.pdf`.

    Args:
      figure: to write.
      name: of the files.
      mark: small text along the right edge, such as `unfinished: 40 of 200 rounds`.
      formats: of the files.
    """
    metadata = {
        "png": {"Software": None},
        "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
        "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
    }
    files = {}
    with style():
        if mark:
            if len(mark) > 20 * figure.get_figheight():  # letters of an inch
                mark = mark.partition(",")[0]
            figure.text(
                0.998,
                0.5,
                mark,
                rotation=270,
                ha="right",
                va="center",
                fontsize=SMALL - 0.5,
                color=COLOURS[1],
            )
        for kind in formats:
            file = io.BytesIO()
            backend = import_module(
                f"matplotlib.backends.backend_{'agg' if kind == 'png' else kind}"
            )
            backend.FigureCanvas(figure)  # whatever the user's own backend is
            figure.savefig(
                file, format=kind, dpi=RESOLUTION, metadata=metadata[kind], facecolor="white"
            )
            files[f"{name}.{kind}"] = file.getvalue()
    return files
