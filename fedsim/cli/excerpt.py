"""The line of a scenario that a problem is about, with carets below the wrong word."""

import re
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from fedsim.errors import Problem, printable

# A quoted text, a word, or else one character.
TOKEN = re.compile(r""""[^"]*"|'[^']*'|[^\s,:\[\]{}]+|.""")

# Characters of a line that are shown before and after the beginning of the word.
BEFORE = 60
AFTER = 60

OF_OPTION = "(--set "  # in the text of a problem whose value stands in no file


def print_excerpt(problem: Problem, file: str) -> None:
    """Print the line of a problem on stderr, which is a terminal; nothing for one of no file."""
    path = Path(problem.file or file)
    if not problem.line or not problem.column or OF_OPTION in problem.what or not path.is_file():
        return
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    if problem.line <= len(lines):
        excerpt = _excerpt(lines[problem.line - 1], problem.line, problem.column - 1)
        Console(stderr=True).print(excerpt, soft_wrap=True)


def _excerpt(line: str, number: int, start: int) -> Text:
    """Return a line with its number, and carets below the word that begins at an index."""
    match = TOKEN.match(line, start)
    end = match.end() if match else start
    before = printable(line[max(start - BEFORE, 0) : start])
    after = printable(line[start : start + AFTER])
    carets = "^" * max(cell_len(printable(line[start : min(end, start + AFTER)])), 1)
    margin = " " * len(str(number))
    return Text.assemble(
        (f"{margin} |\n{number} | ", "bold blue"),
        f"{before}{after}\n",
        (f"{margin} | ", "bold blue"),
        (f"{' ' * cell_len(before)}{carets}", "bold red"),
    )
