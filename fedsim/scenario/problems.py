"""What can be wrong with a scenario: one line per problem, all of them at once."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from fedsim.data.arrays import printable

MOST_CHARACTERS = 300  # of a line; of these, what is wrong gets at least LEAST_CHARACTERS however long its path is
LEAST_CHARACTERS = 160
MOST_PROBLEMS = 50  # lines; whoever made more did not make them by hand
LISTED = 120  # characters of a list of what is known


class Problem(NamedTuple):
    """One line: where it is, what is wrong, what to do."""

    where: str  # dotted path, list indices in brackets; empty for the whole file
    what: str
    line: int | None = None
    column: int | None = None

    def text(self, file: str) -> str:
        """`FILE:LINE:COLUMN: where: what`, in characters that a terminal only prints."""
        place = ":".join(printable(str(part)) for part in (file, self.line, self.column) if part is not None)
        head = ": ".join(part for part in (place, shortened(printable(self.where), 80)) if part)
        room = max(MOST_CHARACTERS - len(head) - 2, LEAST_CHARACTERS)
        return ": ".join(part for part in (head, shortened(printable(self.what), room)) if part)


class ScenarioError(ValueError):
    """A scenario that cannot be run as written (exit code 2); its text is one line per problem.

    Attributes:
      problems: all of them, each with its place and what to do.
      file: where the scenario came from.
    """

    def __init__(self, problems: Iterable[Problem], file: str = "scenario"):
        self.problems: list[Problem] = list(problems)
        self.file = file
        told = self.problems[:MOST_PROBLEMS]
        if len(told) < len(self.problems):
            told.append(Problem("", f"and {len(self.problems) - len(told)} more problems"))
        super().__init__("\n".join(problem.text(file) for problem in told))


class TooLargeError(ScenarioError):
    """A scenario that does not fit into memory (exit code 8), found out by counting."""


class MissingFileError(ScenarioError):
    """A scenario that names a file that is not there (exit code 4)."""


def dotted(path: Iterable[str | int]) -> str:
    """`("server", 0, "kind")` -> `server[0].kind`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def did_you_mean(word: object, known: Iterable[str], see: str = "") -> str:
    """`; did you mean 'x'?` for a near miss, else what is known, or, where that is too long, where to see it."""
    known = sorted(known)
    near = nearest(word, known)
    if near is not None:
        return f"; did you mean '{near}'?"
    listed = ", ".join(known)
    if see and len(listed) > LISTED:
        return f"; {see} names all {len(known)}"
    return f"; known: {listed}"


def nearest(word: object, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The one of what is known that was probably meant."""
    text, spelled = str(word)[:60].lower(), {name.lower(): name for name in known}
    near = difflib.get_close_matches(text, spelled, n=1, cutoff=alike)
    return spelled[near[0]] if near else None


def shortened(text: str, most: int) -> str:
    """At most so many characters, the end left out where there are more."""
    return text if len(text) <= most else text[: most - 3] + "..."
