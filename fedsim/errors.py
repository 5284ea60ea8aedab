"""Every exception that a user may see, with its exit code and its text: one line per problem."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fedsim.spelling import is_slip, plain, spellings

# Characters of a line. However long its path is, what is wrong has at least MIN_CHARACTERS of them.
MAX_CHARACTERS = 300
MIN_CHARACTERS = 160

# What the loader says of a library for which there is no memory.
UNMAPPED = ("failed to map segment", "annot allocate memory", "cannot create shared object")

MAX_PROBLEMS = 50  # lines of an error; nobody makes more mistakes by hand
MAX_LISTED = 120  # characters of a list of known names
MAX_PURPOSES = 4  # purposes of memory that a refusal names

# exit code of a command -> what it means
EXIT_CODES = {
    0: "done",
    1: "an unforeseen error, or a plug-in's function that failed, with the saved traceback "
    "(`--debug` shows it); or workers were lost",
    2: "usage or scenario; of `verify`: something could not be checked",
    3: "data",
    4: "file system",
    5: "stopped for numerical reasons: a run diverged, or aggregated no round",
    6: "directory in use by another process",
    7: "checkpoint or verification; of `check --laws`: a law is broken that a kind must keep",
    8: "memory",
    130: "interrupted by Ctrl-C; resumable",
    143: "interrupted by SIGTERM; resumable",
}


class Failure(Exception):
    """An error that ends a command with one line per problem.

    Attributes:
      exit_code: the exit code of the process.
    """

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython prints in place of a traceback: the text says what to do."""
        return [f"{type(self).__name__}: {self}"]


class Problem(NamedTuple):
    """One line: where it is, what is wrong, what to do."""

    where: str  # dotted path, list indices in brackets; empty for the whole file
    what: str
    line: int | None = None
    column: int | None = None
    file: str | None = None  # where it is not the scenario's own

    def text(self, file: str) -> str:
        """`FILE:LINE:COLUMN: where: what`, in characters that a terminal only prints."""
        file = self.file or file
        location = [part for part in (file, self.line, self.column) if part is not None]
        head = ":".join(printable(str(part)) for part in location)
        where = shortened(printable(self.where), 80)
        if where:
            head = f"{head}: {where}" if head else where

        available = max(MAX_CHARACTERS - len(head) - 2, MIN_CHARACTERS)
        text = shortened(printable(self.what), available)
        return ": ".join(part for part in (head, text) if part)


class ScenarioError(Failure, ValueError):
    """A scenario that cannot be run as written (exit code 2); its text is one line per problem.

    Attributes:
      problems: all problems, each with its path and what to do.
      file: the scenario's file.
      mended: the `Scenario` without its wrong sections, which can be checked further; None where
        nothing is left of it.
    """

    exit_code = 2
    mended: Any = None

    def __init__(self, problems: Iterable[Problem], file: str = "scenario"):
        self.problems: list[Problem] = list(problems)
        self.file = file
        super().__init__("\n".join(problem.text(file) for problem in self.listed()))

    def listed(self) -> list[Problem]:
        """Return the problems that are shown, and how many more there are."""
        listed = self.problems[:MAX_PROBLEMS]
        if len(listed) < len(self.problems):
            listed.append(Problem("", f"and {len(self.problems) - len(listed)} more problems"))
        return listed


class ScenarioTooLargeError(ScenarioError):
    """A scenario that does not fit into memory, as counted before it is allocated (exit code 8)."""

    exit_code = 8


class MissingFileError(ScenarioError):
    """A scenario that names a file that does not exist (exit code 4)."""

    exit_code = 4


class HookError(ScenarioError):
    """A user's function that failed when it was traced (exit code 1), with its file and line."""

    exit_code = 1


class OrderError(ValueError):
    """A list of links in an order that means nothing.

    Attributes:
      index: the index of the link to blame; None: the list.
    """

    def __init__(self, text: str, index: int | None = None):
        self.index = index
        super().__init__(text)


class LinkError(ValueError):
    """Hyper-parameters that a factory refuses, although each of them is allowed.

    Attributes:
      section: the section of the link.
      large: whether it was refused for want of memory.
    """

    def __init__(self, text: str, section: Any, large: bool = False):
        self.section = section
        self.large = large
        super().__init__(text)


class RegistrationError(TypeError):
    """A factory that cannot serve as the schema of its section."""


class FieldError(Failure, RuntimeError):
    """A field of another package that cannot be used (exit code 2)."""

    exit_code = 2


class DeviceError(Failure, ValueError):
    """A device that does not exist, or an impossible environment variable (exit code 2)."""

    exit_code = 2


class ProcessError(Failure, RuntimeError):
    """The processes of a run cannot find each other (exit code 2)."""

    exit_code = 2


class LostError(Failure, RuntimeError):
    """Other processes are gone, and their work is not done; `--resume` continues (exit code 1)."""


class DataError(Failure, ValueError):
    """Samples that cannot be learned from as they are (exit code 3); one line per problem.

    Attributes:
      lines: what is wrong, and in which row.
      by_column: the first problem of each column of a table, by name; of rows, under an empty name.
      section: section key of the section that named the samples or the file.
    """

    exit_code = 3
    section: tuple[str, ...] = ("data",)

    def __init__(self, *lines: str, by_column: Mapping[str, str] | None = None):
        self.lines = tuple(map(printable, lines))
        self.by_column = {name: printable(line) for name, line in (by_column or {}).items()}
        super().__init__("\n".join(self.lines))

    def with_prefix(self, prefix: str) -> "DataError":
        """Return the same problems, each with a prefix such as the file's path."""
        lines = [f"{prefix}: {line}" for line in self.lines]
        return DataError(*lines, by_column=self.by_column)


class PartitionError(ValueError):
    """Samples that cannot be partitioned as asked.

    Attributes:
      where: the key of the data section to blame.
    """

    def __init__(self, text: str, where: str = "partition"):
        self.where = where
        super().__init__(text)


class SectionError(ValueError):
    """A section that asks for what is impossible.

    Attributes:
      where: the key of the section to blame; empty: the section.
    """

    def __init__(self, where: str, what: str):
        self.where = where
        super().__init__(what)


class PrivacyError(SectionError):
    """Privacy that cannot be accounted for as asked."""


class TopologyError(SectionError):
    """A graph that cannot be made, or that nodes cannot mix over."""


class DirectoryError(Failure, OSError):
    """A run directory that cannot be used (exit code 4)."""

    exit_code = 4


class LockedError(Failure, OSError):
    """A run directory that another process is writing (exit code 6)."""

    exit_code = 6


class CheckpointError(Failure, ValueError):
    """A checkpoint that a run cannot resume from (exit code 7)."""

    exit_code = 7


class CorruptError(CheckpointError):
    """A checkpoint that is damaged: the one before it may be intact."""


class OutOfMemoryError(Failure, MemoryError):
    """Something that does not fit into memory (exit code 8); one line with the numbers.

    `ScenarioTooLargeError` says the same at a path of a scenario.

    Attributes:
      parts: bytes by purpose.
    """

    exit_code = 8

    def __init__(self, parts: Mapping[str, int], limit: int):
        self.parts = dict(parts)
        text = f"does not fit into memory: needs {memory_in_words(parts)}"
        super().__init__(f"{text}, and this process may hold {megabytes(limit)}")


def memory_in_words(parts: Mapping[str, int]) -> str:
    """Return the sum of the bytes, and the largest purposes with theirs, in words."""
    total = megabytes(sum(parts.values()))
    largest = sorted(parts.items(), key=lambda part: -part[1])[:MAX_PURPOSES]
    purposes = [
        f"{name.replace('_', ' ')} {megabytes(size)}" for name, size in largest if size >= 5e5
    ]
    return f"{total} ({', '.join(purposes)})" if purposes else total


def exhausted(error: BaseException) -> str:
    """The reason of an allocation that failed; empty for any other error.

    It was one of XLA or NumPy, or a library that found no address space when it was loaded.
    """
    if isinstance(error, Failure):
        return ""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return text or "out of memory"
    if isinstance(error, ImportError) and any(words in text for words in UNMAPPED):
        return text
    _, status, reason = text.partition("RESOURCE_EXHAUSTED")
    line = f"{status}{reason}".splitlines()[0] if status else ""
    return line.removeprefix("RESOURCE_EXHAUSTED: ").rstrip(".")


class Interrupted(BaseException):
    """A run that ended early on request, after its commit (exit code 130 or 143).

    `--resume` continues it.
    """


def exit_code(error: BaseException) -> int:
    """The exit code of an exception; 1 where it is unforeseen."""
    if isinstance(error, Failure):
        return error.exit_code
    if isinstance(error, MemoryError):
        return 8
    if isinstance(error, OSError):
        return 4
    return 1


def megabytes(size: float) -> str:
    """Bytes in words.

    >>> megabytes(12_345_678), megabytes(10**24)
    ('12.3 MB', '1e+18 MB')
    """
    return f"{size / 1e6:,.1f} MB" if size < 1e15 else f"{size / 1e6:.3g} MB"


def printable(text: str) -> str:
    """Text from files and names without characters that a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def brief(line: str) -> str:
    """A line of an error, printable, in which no text that it quotes is long.

    Of a long word, and of a line with too many words, beginning and end stay.

    >>> len(brief(f"no scenario {'x' * 5000}, see fedsim list scenarios"))
    201
    """
    line = re.sub(rf"\S{{{MAX_CHARACTERS + 1},}}", _ends, printable(line))
    if len(line) <= 2 * MAX_CHARACTERS:
        return line
    return f"{line[:MAX_CHARACTERS]}...{line[-MAX_CHARACTERS:]}"


def _ends(word: re.Match[str]) -> str:
    """Beginning and end of a long word."""
    half = MIN_CHARACTERS // 2
    return f"{word[0][:half]}...{word[0][-half:]}"


def dotted(path: Iterable[str | int]) -> str:
    """`("server", 0, "kind")` -> `server[0].kind`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif text:
            text += f".{part}"
        else:
            text = part
    return text


def did_you_mean(word: object, known: Iterable[str], see: str = "") -> str:
    """`; did you mean 'x'?` for a near miss, otherwise what is known.

    Args:
      word: what was typed.
      known: the names that there are.
      see: the command that lists them, which is named where they are too many.
    """
    known = sorted(known)
    if near := near_miss(word, known):
        return f"; {near}"
    listed = ", ".join(known)
    if see and len(listed) > MAX_LISTED:
        return f"; {see} names all {len(known)}"
    return f"; known: {listed}"


def near_miss(word: object, known: Iterable[str], alike: float = 0.6) -> str:
    """`did you mean 'x'?` with the `nearest` of known names, if any; arguments as there."""
    near = nearest(word, known, alike)
    return f"did you mean '{near}'?" if near else ""


def nearest(word: object, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The known name that was probably meant, if any: another spelling, or a slip of the fingers.

    A name that only looks alike was not meant: `ifca` is not `mifa`.

    Args:
      word: what was typed.
      known: the names that there are.
      alike: how similar they must be, from 0 to 1.

    >>> nearest("MultiKrum", ["krum", "multi_krum"]), nearest("ifca", ["mifa"])
    ('multi_krum', None)
    """
    text = str(word)[:60].lower()
    known = list(known)
    by_plain: dict[str, str] = {}
    for name in known:
        by_plain.setdefault(plain(name), name)
    for spelling in spellings(text):
        if spelling in by_plain:
            return by_plain[spelling]

    by_lower_case = {name.lower(): name for name in known}
    for near in difflib.get_close_matches(text, by_lower_case, n=5, cutoff=alike):
        if is_slip(text, near):
            return by_lower_case[near]
    return None


def shortened(text: str, most: int) -> str:
    """At most `most` characters of a text; `...` stands for the end of a longer one."""
    return text if len(text) <= most else text[: most - 3] + "..."
