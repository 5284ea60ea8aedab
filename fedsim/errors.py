"""Every exception that a user may meet, with its exit code, and how a problem of a scenario is written: one line each."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

MOST_CHARACTERS = 300  # of a line; of these, what is wrong gets at least LEAST_CHARACTERS however long its path is
LEAST_CHARACTERS = 160
MOST_PROBLEMS = 50  # lines; whoever made more did not make them by hand
LISTED = 120  # characters of a list of what is known
EXIT_CODES = {  # of a command -> what it says
    0: "done",
    1: "unforeseen, or a plug-in's function that fails, with the saved traceback (`--debug` shows it); or workers were lost",
    2: "usage or scenario; of `verify`: something could not be checked",
    3: "data",
    4: "file system",
    5: "stopped for numerical reasons: a run diverged, or aggregated no round",
    6: "directory in use by another process",
    7: "checkpoint or verification",
    8: "memory",
    130: "interrupted by Ctrl-C; resumable",
    143: "interrupted by SIGTERM; resumable",
}
PARTS = 4  # parts that a refusal for want of memory names


class Failure(Exception):
    """What ends a command in one line per problem.

    Attributes:
      exit_code: of the process.
      located: whether the text begins with FILE:LINE:COLUMN, which editors and terminals open.
    """

    exit_code = 1
    located = False


class Problem(NamedTuple):
    """One line: where it is, what is wrong, what to do."""

    where: str  # dotted path, list indices in brackets; empty for the whole file
    what: str
    line: int | None = None
    column: int | None = None

    def text(self, file: str) -> str:
        """`FILE:LINE:COLUMN: where: what`, in characters that a terminal only prints."""
        place = ":".join(
            printable(str(part)) for part in (file, self.line, self.column) if part is not None
        )
        head = ": ".join(part for part in (place, shortened(printable(self.where), 80)) if part)
        room = max(MOST_CHARACTERS - len(head) - 2, LEAST_CHARACTERS)
        return ": ".join(part for part in (head, shortened(printable(self.what), room)) if part)


class ScenarioError(Failure, ValueError):
    """A scenario that cannot be run as written (exit code 2); its text is one line per problem.

    Attributes:
      problems: all of them, each with its place and what to do.
      file: where the scenario came from.
      mended: the `Scenario` without its wrong parts, of which more can be checked; None where there is none.
    """

    exit_code = 2
    located = True
    mended: Any = None

    def __init__(self, problems: Iterable[Problem], file: str = "scenario"):
        self.problems: list[Problem] = list(problems)
        self.file = file
        listed = self.problems[:MOST_PROBLEMS]
        if len(listed) < len(self.problems):
            listed.append(Problem("", f"and {len(self.problems) - len(listed)} more problems"))
        super().__init__("\n".join(problem.text(file) for problem in listed))


class TooLargeError(ScenarioError):
    """A scenario that does not fit into memory (exit code 8), found out by counting."""

    exit_code = 8


class MissingFileError(ScenarioError):
    """A scenario that names a file that is not there (exit code 4)."""

    exit_code = 4


class HookError(ScenarioError):
    """A function of the user's own that failed when it was traced; its text names file and line (exit code 1)."""

    exit_code = 1


class OrderError(ValueError):
    """A list of links in an order that means nothing; `index` is the link to blame, None the whole list."""

    def __init__(self, what: str, index: int | None = None):
        self.index = index
        super().__init__(what)


class LinkError(ValueError):
    """Hyper-parameters that are each allowed, and that a factory refuses all the same; `section` is its link.

    `large`: it is refused for want of memory.
    """

    def __init__(self, what: str, section: Any, large: bool = False):
        self.section, self.large = section, large
        super().__init__(what)


class RegistrationError(TypeError):
    """A factory that cannot serve as the schema of its own section."""


class DeviceError(Failure, ValueError):
    """A device that is not there, or an environment variable that asks for what cannot be (exit code 2)."""

    exit_code = 2


class ProcessError(Failure, RuntimeError):
    """The processes of a run cannot find each other (exit code 2)."""

    exit_code = 2


class LostError(Failure, RuntimeError):
    """Other processes are gone, and what they had to do is not done; `--resume` goes on (exit code 1)."""


class DataError(Failure, ValueError):
    """Samples that cannot be learned from as they are (exit code 3); one line per problem, whatever the file holds.

    Attributes:
      lines: what is wrong, and in which row.
      by_column: of a table the first problem of each column, by its name; what concerns whole rows under an empty one.
      section: keys of the section that named the samples or the file.
    """

    exit_code = 3
    section: tuple[str, ...] = ("data",)

    def __init__(self, *lines: str, by_column: Mapping[str, str] | None = None):
        self.lines = tuple(map(printable, lines))
        self.by_column = {name: printable(line) for name, line in (by_column or {}).items()}
        super().__init__("\n".join(self.lines))

    def within(self, place: str) -> "DataError":
        """The same problems, each with a place in front, such as the file's."""
        return DataError(*(f"{place}: {line}" for line in self.lines), by_column=self.by_column)


class PartitionError(ValueError):
    """Samples that cannot be partitioned as asked; `where` is the key of the data section to blame."""

    def __init__(self, what: str, where: str = "partition"):
        self.where = where
        super().__init__(what)


class DirectoryError(Failure, OSError):
    """A run directory that cannot be used (exit code 4)."""

    exit_code = 4


class LockedError(Failure, OSError):
    """A run directory that another process is writing (exit code 6)."""

    exit_code = 6


class CheckpointError(Failure, ValueError):
    """A commit that cannot be continued from (exit code 7)."""

    exit_code = 7


class CorruptError(CheckpointError):
    """A commit that is damaged: the one before it may still be whole."""


class TooLarge(Failure, MemoryError):
    """Something that does not fit into memory (exit code 8); one line with the numbers.

    Attributes:
      parts: bytes by purpose.
    """

    exit_code = 8

    def __init__(self, parts: Mapping[str, int], most: int):
        self.parts = dict(parts)
        super().__init__(
            f"does not fit into memory: needs {in_parts(parts)}, and this process may hold {megabytes(most)}"
        )


def in_parts(parts: Mapping[str, int]) -> str:
    """Bytes by purpose: their sum, and the largest of them."""
    largest = sorted(parts.items(), key=lambda part: -part[1])[:PARTS]
    named = ", ".join(
        f"{name.replace('_', ' ')} {megabytes(size)}" for name, size in largest if size >= 5e5
    )
    return f"{megabytes(sum(parts.values()))}{f' ({named})' if named else ''}"


def exhausted(error: BaseException) -> str:
    """What an allocation that failed says, XLA's or NumPy's; empty for any other error."""
    if isinstance(error, MemoryError) and not isinstance(error, Failure):
        return " ".join(str(error).split()) or "out of memory"
    text = str(error)
    if isinstance(error, Failure) or "RESOURCE_EXHAUSTED" not in text:
        return ""
    return (
        text[text.index("RESOURCE_EXHAUSTED") :]
        .splitlines()[0]
        .removeprefix("RESOURCE_EXHAUSTED: ")
        .rstrip(".")
    )


class Interrupted(BaseException):
    """A run that was asked to end early, after its commit; `--resume` goes on (exit code 130 or 143)."""


def exit_code(error: BaseException) -> int:
    """Exit code of an exception: its own, or that of the system's file and memory errors; 1 where it was not foreseen."""
    if isinstance(error, Failure):
        return error.exit_code
    return 8 if isinstance(error, MemoryError) else 4 if isinstance(error, OSError) else 1


def megabytes(size: float) -> str:
    """Bytes as a reader takes them in.

    >>> megabytes(12_345_678), megabytes(10**24)
    ('12.3 MB', '1e+18 MB')
    """
    return f"{size / 1e6:,.1f} MB" if size < 1e15 else f"{size / 1e6:.3g} MB"


def printable(text: str) -> str:
    """Text from files and names without what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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
