"""What fits on the screen: lines as wide as the terminal, and a pager for what is longer."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable

import click

NARROWEST = 60  # columns that all output is written for
UNLIMITED = 10_000  # columns where nobody has said how many there are


def width() -> int | None:
    """Return the columns of the terminal, or those of `COLUMNS`; None in a pipe without it."""
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, NARROWEST)
    return None


def wrapped(text: str, indent: str = "", hanging: str | None = None) -> str:
    """Return a text as lines of the terminal's width; as it is where there is none.

    Args:
      hanging: in front of the others; None: as the first.
    """
    return textwrap.fill(
        text,
        width() or UNLIMITED,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_on_hyphens=False,
        break_long_words=False,
    )


def rows_of_terms(terms: Iterable[tuple[str, str]], column: int, indent: str = "  ") -> str:
    """Return terms with their explanations beside them, a line each or as many as it takes.

    Args:
      column: how wide the column of terms is, at most a quarter of the screen; a longer term
        has a line of its own if the two do not fit on one.
    """
    column = min(column, (width() or UNLIMITED) // 4)
    hanging = indent + " " * (column + 1)
    lines = []
    for term, text in terms:
        start = f"{indent}{term:<{column}} "
        if len(term) > column and len(start + text) > (width() or UNLIMITED):
            lines += [wrapped(term, indent, f"{indent}  "), wrapped(text, hanging)]
        else:
            lines.append(wrapped(text, start, hanging).rstrip() or start.rstrip())
    return "\n".join(lines)


def show(text: str) -> None:
    """Print a text; at a terminal that it does not fit on, through the user's pager."""
    is_long = text.count("\n") >= shutil.get_terminal_size().lines
    if sys.stdout.isatty() and is_long:
        click.echo_via_pager(f"{text}\n")
    else:
        click.echo(text)
