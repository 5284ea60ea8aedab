"""YAML without its traps: a strict reader that remembers positions.

`1e-3` is a number and `no` is a word. Duplicate keys, anchors, aliases, merge keys and tags are
refused; depth, size and reading time are bounded. The result is plain dictionaries, lists, numbers,
strings and None, and a position for every path.
"""

import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fedsim.errors import Problem, ScenarioError, dotted, shortened
from fedsim.scenario.expected import value_in_words

MAX_BYTES = 8 << 20  # of a file
MAX_NODES = 400_000  # keys, values, lists and mappings: some 2 s of reading
MAX_DEPTH = 20
MAX_DIGITS = 17  # of an integer

# Longer texts are parsed by libyaml, 20 times as fast. PyYAML's own parser is fast enough for files
# that are written by hand, and its messages are the ones that `_IN_WORDS` translates.
MAX_CHARACTERS_FOR_PYYAML = 16 << 10

TOO_LARGE = (
    f"larger than {MAX_BYTES >> 20} MiB, too large for a scenario; keep data in a separate file"
)
TOO_MANY = (
    f"more than {MAX_NODES:,} keys and values; "
    "keep long lists in a file, as in cohort: {kind: listed, path: ...}"
)
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels, too deep for a scenario"
SECOND_DOCUMENT = "a second document begins here; a scenario is one document, remove the ---"
ANCHOR = "anchors and aliases (& and *) are not allowed; write the value out, or quote it"
MERGE_KEY = "merge keys (<<) are not allowed; write the keys out"
EMPTY = "is empty; a scenario needs at least name: and data: (fedsim new writes one)"

KeyPath = tuple[str | int, ...]  # keys and list indices from the top of a scenario


class Position(NamedTuple):
    """Line and column, from 1 (None: nowhere), and the file if it is not the scenario's own."""

    line: int | None
    column: int | None
    file: str | None = None

    def in_words(self) -> str:
        """`line 3`, and the file if it is another one."""
        return f"{self.file}, line {self.line}" if self.file else f"line {self.line}"


NOWHERE = Position(None, None)

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")

# What other YAML readers turn into a number: 010, 1:30, 0x1F, 1_000.
_AMBIGUOUS = re.compile(
    r"[-+]?0[0-9]+|[-+]?[0-9]+(:[0-5]?[0-9])+|[-+]?0[xob][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*_[0-9_]*"
)
_CONSTANTS = {"null": None, "~": None, "": None, "true": True, "false": False}

# What no editor shows: control characters, line ends for YAML alone, and characters that turn the
# direction of a line around.
_INVISIBLE = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202f-\u2065\u206a-\ud7ff"
    "\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)

_MISALIGNED = "this does not fit the lines above; align it with its neighbours, and close brackets"
_OPEN_LIST = "a list that begins with '[' is not closed; put a ']' or a comma before this"
_OPEN_MAPPING = "a mapping that begins with '{' is not closed; put a '}' or a comma before this"

# A part of a message of PyYAML or libyaml -> our message. The first part that matches counts.
_IN_WORDS = {
    "mapping values are not allowed": (
        "a ': ' inside a value, or a line indented unlike its neighbours; quote or align it"
    ),
    "'\\t' that cannot start": "a tab; indent with spaces",
    "that cannot start any token": (
        "begins with a character that has a meaning in YAML; put the value in quotes"
    ),
    "expected <block end>": _MISALIGNED,
    "expected ',' or ']'": _OPEN_LIST,
    "expected ',' or '}'": _OPEN_MAPPING,
    "did not find expected ',' or ']'": _OPEN_LIST,
    "did not find expected ',' or '}'": _OPEN_MAPPING,
    "did not find expected": _MISALIGNED,
    "exceeded maximum nesting depth": "nested too deeply; close brackets",
    "found unexpected end of stream": (
        "a quote is not closed; put one at the end of the quoted text"
    ),
    "could not find expected ':'": "a key without a value; write 'key: value', with a space",
    "sequence entries are not allowed": (
        "a '- ' after something else on its line; begin a new line"
    ),
    "expected the node content": "an unmatched bracket, or a comma too many; remove it",
    "escape": "an escape that YAML does not know; write text with \\ in single quotes",
    "document": (
        "a second document or a directive (--- or %); a scenario is one document, remove it"
    ),
}
# Endings of files that are data, never scenarios.
DATA_FILES = (".csv", ".csv.gz", ".tsv", ".parquet", ".xlsx", ".npz", ".h5", ".hdf5")
_BEGINS = " (it begins in line "


class Document(NamedTuple):
    """A scenario as it is written.

    Attributes:
      values: plain values.
      positions: path -> where its value begins; (*path, "<key>") -> where the key begins.
      file: the name of the file.
      roots: folders whose data files it may name; None for the mapping of a Python program, which
        may name any.
      edits: (path, text) of every `--set`.
      broken: paths whose values were refused and left out, so that the rest can be checked.
      bases: names of the files that were merged in, the one that `extends` names first.
      texts: (name, text) of the file and of its bases, as they were read.
    """

    values: dict[str, Any]
    positions: dict[KeyPath, Position]
    file: str
    roots: tuple[str, ...] | None = None
    edits: tuple[tuple[KeyPath, str], ...] = ()
    broken: frozenset[KeyPath] = frozenset()
    bases: tuple[str, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()


def value_at(values: Any, path: Iterable[str | int], absent: Any = None) -> Any:
    """Return the value at a path below plain values, `absent` if there is none."""
    for key in path:
        try:
            values = values[key]
        except (KeyError, IndexError, TypeError):
            return absent
    return values


def text_of(path: Path) -> str:
    """Return the text of a scenario file: a regular file in UTF-8, of a limited size."""
    if not stat.S_ISREG(path.stat().st_mode):
        problem = Problem("", "is not a regular file; a scenario is a text file")
        raise ScenarioError([problem], str(path))
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ScenarioError([Problem("", TOO_LARGE)], str(path))

    if path.name.lower().endswith(DATA_FILES):
        command = f"fedsim data describe {path.name}"
        text = f"is a data file, not a scenario; {command} prints the section that reads it"
        raise ScenarioError([Problem("", text)], str(path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line = before.count(b"\n") + 1
        column = len(before) - before.rfind(b"\n")
        found_byte = f"byte {content[error.start]:#04x} is not UTF-8 ({error.reason})"
        problem = Problem("", f"{found_byte}; save the file as UTF-8 text", line, column)
        raise ScenarioError([problem], str(path)) from None


def parse(text: str, file: str) -> Document:
    """Read the text of a scenario.

    Raises:
      ScenarioError: if it is not a plain mapping.
    """
    text = _checked_text(text, file)
    try:
        events = _events(text, file)
        builder = _Builder(events)
        first = next(events, None)
        values = {} if first is None else builder.value(first, ())
        # Read to the end: what follows is an error.
        for _ in events:
            pass
    except ScenarioError:
        raise
    except yaml.MarkedYAMLError as error:
        raise ScenarioError([_not_yaml(error)], file) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        text = f"not YAML: {str(error).splitlines()[0]}"
        raise ScenarioError([Problem("", text)], file) from None

    problems = builder.problems
    if first is None:
        problems = [Problem("", EMPTY, 1, 1)]
    elif not problems and not isinstance(values, dict):
        text = f"a scenario is a mapping of keys to values, found {value_in_words(values)}"
        problems = [Problem("", f"{text}; begin with name: and data:", *builder.positions[()])]
    if problems:
        raise ScenarioError(problems, file)
    return Document(values, builder.positions, file, texts=((file, text),))


def without_line(text: str) -> str:
    """Return a message of `parse` without the line in which something begins."""
    return text.partition(_BEGINS)[0]


def _checked_text(text: str, file: str) -> str:
    """Return a text without its byte order mark."""
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise ScenarioError([Problem("", TOO_LARGE)], file)
    text = text.removeprefix("\ufeff")
    if invisible := _INVISIBLE.search(text):
        lines = re.split(r"\r\n|\r|\n", text[: invisible.start()])
        refusal = f"the character U+{ord(invisible[0]):04X}, which editors do not show; delete it"
        raise ScenarioError([Problem("", refusal, len(lines), len(lines[-1]) + 1)], file)
    return text


def _position(mark: Any) -> Position:
    """Return the position of a mark, which counts from 0."""
    return Position(mark.line + 1, mark.column + 1)


def _not_yaml(error: yaml.MarkedYAMLError) -> Problem:
    """Return a syntax error in our words, at the position to look at."""
    problem = error.problem or ""
    their_words = problem or error.context or ""
    our_words = next((words for part, words in _IN_WORDS.items() if part in their_words), "")

    # What has no end is found at the end of the file, and has to be mended where it begins.
    mark = error.problem_mark or error.context_mark
    if "end of stream" in problem or "expected ':'" in problem:
        mark = error.context_mark or mark

    text = f"not YAML: {our_words or their_words}"
    if "is not closed" in our_words and error.context_mark:
        text += f"{_BEGINS}{error.context_mark.line + 1})"
    return Problem("", text, *_position(mark)) if mark else Problem("", text)


def _loader(text: str) -> Any:
    if len(text) <= MAX_CHARACTERS_FOR_PYYAML:
        return yaml.SafeLoader
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _events(text: str, file: str) -> Iterator[yaml.Event]:
    """Yield the events of a text's only document.

    Raises:
      ScenarioError: at the first event that could grow without bounds, or execute something; this
        is before any of it is stored.
    """
    depth = 0
    documents = 0
    nodes = 0
    for event in yaml.parse(text, Loader=_loader(text)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if isinstance(event, yaml.NodeEvent):
            nodes += 1

        if depth > MAX_DEPTH:
            refusal = TOO_DEEP
        elif nodes > MAX_NODES:
            refusal = TOO_MANY
        elif documents > 1:
            refusal = SECOND_DOCUMENT
        else:
            refusal = _refusal(event)
        if refusal:
            raise ScenarioError([Problem("", refusal, *_position(event.start_mark))], file)

        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            yield event


def _refusal(event: yaml.Event) -> str:
    """Return why an event is not allowed, empty if it is."""
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        return ANCHOR
    tag = getattr(event, "tag", None)
    if tag:
        tag_in_words = value_in_words(tag)
        return (
            f"tags are not allowed, found {tag_in_words}; a scenario is data, write the value "
            "without it"
        )
    return ""


class _Builder:
    """Builds plain values of a parser's events.

    Attributes:
      positions: path -> position, as of `Document`.
      problems: keys and values that are refused; the rest is read all the same.
    """

    def __init__(self, events: Iterator[Any]):
        self.positions: dict[KeyPath, Position] = {}
        self.problems: list[Problem] = []
        self._events = events

    def value(self, event: Any, path: KeyPath) -> Any:
        """Return the value that begins with an event."""
        self.positions[path] = _position(event.start_mark)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(path)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if event.style:  # quoted or block: always text
            return event.value
        try:
            return scalar(event.value)
        except ValueError as error:
            self.problems.append(Problem(dotted(path), str(error), *self.positions[path]))
            return None

    def _list(self, path: KeyPath) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self.value(event, (*path, len(items))))
        return items

    def _mapping(self, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            position = _position(event.start_mark)
            if not isinstance(event, yaml.ScalarEvent):
                key_in_words = value_in_words(self._skipped(event))
                text = f"keys are plain words, found {key_in_words}; write key: value, with a space"
                self.problems.append(Problem(dotted(path), text, *position))
                self._skipped(next(self._events))
                continue

            key = event.value
            refusal = self._refusal_of_key(key, path, values)
            if refusal:
                self.problems.append(Problem(dotted((*path, key)), refusal, *position))
                self._skipped(next(self._events))
                continue

            values[key] = self.value(next(self._events), (*path, key))
            self.positions[(*path, key, "<key>")] = position
        return values

    def _refusal_of_key(self, key: str, path: KeyPath, values: dict[str, Any]) -> str:
        """Return why a key is not allowed in a mapping with these values, empty if it is."""
        if key == "<<":
            return MERGE_KEY
        if key in values:
            first_line = self.positions[(*path, key, "<key>")][0]
            return f"this key is given twice, first in line {first_line}; keep one"
        return ""

    def _skipped(self, event: Any) -> Any:
        """Read past a value, and return it; its positions and problems do not count."""
        return _Builder(self._events).value(event, ())


def scalar(text: str) -> Any:
    """Read an unquoted word: null, true, false, an integer, a decimal number, or text.

    Raises:
      ValueError: for what other YAML readers silently turn into another number.

    >>> [scalar(t) for t in ("1e-3", "no", "8", "true", "0.5", "-2.5E3", "null")]
    [0.001, 'no', 8, True, 0.5, -2500.0, None]
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        if len(text) > MAX_DIGITS + 1:  # one for the sign
            digits = len(text.lstrip("+-"))
            raise ValueError(f"found an integer of {digits} digits; write at most {MAX_DIGITS}")
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            reason = "which is too large; the largest number is about 1.8e308"
            raise ValueError(f"found {shortened(text, 40)}, {reason}")
        return number
    if len(text) < 100 and _AMBIGUOUS.fullmatch(text):
        reason = "which can be read in several ways; write a plain decimal number, or quote it"
        raise ValueError(f"found {shortened(text, 40)}, {reason}")
    return text
