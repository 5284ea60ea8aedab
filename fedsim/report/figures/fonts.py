"""Fonts in PDFs: only what their letters need.

Importing this imports no font tools.
"""

import contextlib
from collections.abc import Iterator

# Tables by which programs place letters. In a PDF every letter has its place; cutting these tables
# down to its letters took two thirds of the time of a font.
PLACING = ("GDEF", "GPOS", "GSUB", "MATH", "kern")


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
