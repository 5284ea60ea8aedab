"""What can be wrong with a scenario: one line per problem, all of them at once."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """One line: where it is, what is wrong, what to do."""

    where: str  # dotted path, list indices in brackets; empty for the whole file
    what: str
    line: int | None = None
    column: int | None = None

    def text(self, file: str) -> str:
        """`FILE:LINE:COLUMN: where: what`."""
        place = ":".join(str(part) for part in (file, self.line, self.column) if part is not None)
        return ": ".join(part for part in (place, self.where, self.what) if part)


class ScenarioError(ValueError):
    """A scenario that cannot be run as written (exit code 2)."""

    def __init__(self, problems: Iterable[Problem], file: str = "scenario"):
        self.problems = list(problems)
        self.file = file
        super().__init__("\n".join(problem.text(file) for problem in self.problems))


def dotted(path: Iterable[str | int]) -> str:
    """`("server", 0, "kind")` -> `server[0].kind`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for a near miss, else the list of what is known."""
    known = sorted(known)
    near = difflib.get_close_matches(str(word), known, n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(known)}"
