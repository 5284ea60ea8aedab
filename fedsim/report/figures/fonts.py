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

    matplotlib makes its own `fontTools.subset.Options`, and has no argument for them.
    """
    from fontTools import subset

    class Options(subset.Options):
        def __init__(self, **arguments):
            super().__init__(**arguments)
            self.drop_tables += PLACING

    before = subset.Options
    subset.Options = Options
    try:
        yield
    finally:
        subset.Options = before
