"""Fonts of figures: the files that come with matplotlib, and of them what their letters need.

Importing this imports no font tools.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

# The name by which our figures ask for matplotlib's own DejaVu Sans. The name in the files also
# finds the system's files, which are of another version on most machines and change the bytes.
FAMILY = "DejaVu Sans of matplotlib"

# Tables by which programs place letters. In a PDF every letter has its place; cutting these tables
# down to its letters took two thirds of the time of a font.
PLACING = ("GDEF", "GPOS", "GSUB", "MATH", "kern")


@cache
def list_own_fonts() -> None:
    """Make matplotlib's own DejaVu Sans known under `FAMILY`, once for the process."""
    import matplotlib
    from matplotlib.font_manager import fontManager, get_font, ttfFontProperty

    folder = f"{matplotlib.get_data_path()}/fonts/ttf"
    for name in ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"):
        described = ttfFontProperty(get_font(f"{folder}/{name}.ttf"))
        fontManager.ttflist.append(replace(described, name=FAMILY))


@contextlib.contextmanager
def without_placing() -> Iterator[None]:
    """Embed fonts without the tables that place letters, in this context.

    matplotlib reads fonts by `fontTools.subset.load_font`, and has no argument for this.
    """
    from fontTools import subset

    before = subset.load_font

    def load_font(*arguments, **options):
        font = before(*arguments, **options)
        for name in PLACING:
            if name in font:
                del font[name]
        return font

    subset.load_font = load_font
    try:
        yield
    finally:
        subset.load_font = before
