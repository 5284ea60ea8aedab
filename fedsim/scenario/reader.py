"""YAML without its traps: a strict reader that keeps positions.

`1e-3` is a number, `no` is a word, duplicate keys, anchors, aliases, merge keys and tags are refused; depth, size and the
time that reading takes are bounded. What comes out is plain dictionaries, lists, numbers, strings and None, and a position
for every path.
"""

import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import yaml

from fedsim.errors import Problem, ScenarioError, dotted, shortened
from fedsim.scenario.expected import value_in_words

MOST_BYTES = 8 << 20  # of a file
MOST_SECONDS = 2.0  # of processor time that reading may take: some 200,000 values
MOST_DEPTH = 20
HAND_WRITTEN = (
    16 << 10
)  # characters, up to which PyYAML's own parser is quick enough; `_IN_WORDS` has its words
TOO_LARGE = (
    f"larger than {MOST_BYTES >> 20} MiB, which no scenario is; keep data in a file of their own"
)
TOO_SLOW = f"takes longer than {MOST_SECONDS:g} s to read; keep long lists in a file, as cohort: {{kind: listed, path: ...}}"
TOO_DEEP = f"nested deeper than {MOST_DEPTH} levels, which no scenario is"
Path = tuple[str | int, ...]

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_ODD = re.compile(
    r"[-+]?0[0-9]+|[-+]?[0-9]+(:[0-5]?[0-9])+|[-+]?0[xob][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*_[0-9_]*"
)
_WORDS = {"null": None, "~": None, "": None, "true": True, "false": False}
# what no editor shows: control characters, line ends for YAML alone, and what turns the order of a line around
_HIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_IN_WORDS = {  # PyYAML's words -> ours
    "mapping values are not allowed": "a ': ' inside a value, or a line indented unlike its neighbours; quote or align it",
    "'\\t' that cannot start": "a tab; indent with spaces",
    "that cannot start any token": "begins with a character that means something in YAML; put the value in quotes",
    "expected <block end>": "this does not fit the lines above; align it with its neighbours, and close brackets",
    "expected ',' or ']'": "a list that began with '[' is not closed; put a ']' or a comma before this",
    "expected ',' or '}'": "a mapping that began with '{' is not closed; put a '}' or a comma before this",
    "did not find expected ',' or ']'": "a list that began with '[' is not closed; put a ']' or a comma before this",
    "did not find expected ',' or '}'": "a mapping that began with '{' is not closed; put a '}' or a comma before this",
    "did not find expected": "this does not fit the lines above; align it with its neighbours, and close brackets",
    "exceeded maximum nesting depth": "nested too deeply; close brackets",
    "found unexpected end of stream": "a quote is not closed; put one at the end of the text",
    "could not find expected ':'": "a key without a value; write 'key: value', with a space",
    "sequence entries are not allowed": "a '- ' after something else on its line; begin a new line",
    "expected the node content": "a bracket without its partner, or a comma too many; take it out",
    "escape": "an escape that YAML does not know; write text with \\ in single quotes",
    "document": "a second document or a directive (--- or %); a scenario is one document, take it out",
}


class Document(NamedTuple):
    """A file as read."""

    values: dict[str, Any]  # what it says
    places: dict[Path, tuple[int, int]]  # where each value stands
    file: str  # its name
    # folders that it may name data files in; None: it is the user's own program, which may read anything
    roots: tuple[str, ...] | None = None
    edits: tuple[tuple[Path, str], ...] = ()  # (path, as typed) of every `--set`
    broken: frozenset[Path] = (
        frozenset()
    )  # parts that were refused and left out, of a scenario that is checked on


def value_at(values: Any, path: Iterable[str | int], absent: Any = None) -> Any:
    """The value at a path below plain values; `absent` where there is none."""
    for part in path:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return absent
    return values


def parse(text: str, file: str) -> Document:
    """Text of a scenario -> its values and their places.

    Raises:
      ScenarioError: for anything that is not a plain mapping.
    """
    text = _printable(text, file)
    places: dict[Path, tuple[int, int]] = {}
    problems: list[Problem] = []
    try:
        events = _events(text, file)
        first = next(events, None)
        values = {} if first is None else _value(first, events, (), places, problems)
        for _ in events:  # there is nothing behind it, or an error
            pass
    except yaml.MarkedYAMLError as error:
        raise ScenarioError([_not_yaml(error)], file) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError(
            [Problem("", f"not YAML: {str(error).splitlines()[0]}")], file
        ) from None
    if first is None:
        problems = [
            Problem(
                "",
                "is empty; a scenario needs at least name: and data: (fedsim new writes one)",
                1,
                1,
            )
        ]
    elif not problems and not isinstance(values, dict):
        refusal = f"a scenario is a mapping of keys to values, found {value_in_words(values)}"
        problems = [Problem("", f"{refusal}; begin with name: and data:", *places[()])]
    if problems:
        raise ScenarioError(problems, file)
    return Document(values, places, file)


def _printable(text: str, file: str) -> str:
    """The text without a byte order mark.

    Raises:
      ScenarioError: for more than a scenario has, or characters that editors do not show.
    """
    if len(text) > MOST_BYTES or len(text.encode(errors="replace")) > MOST_BYTES:
        raise ScenarioError([Problem("", TOO_LARGE)], file)
    text = text.removeprefix("\ufeff")
    if hidden := _HIDDEN.search(text):
        refusal = f"the character U+{ord(hidden[0]):04X}, which editors do not show; delete it"
        lines = re.split(r"\r\n|\r|\n", text[: hidden.start()])
        raise ScenarioError([Problem("", refusal, len(lines), len(lines[-1]) + 1)], file)
    return text


def _place(mark: Any) -> tuple[int, int]:
    return mark.line + 1, mark.column + 1


def _not_yaml(error: yaml.MarkedYAMLError) -> Problem:
    """What PyYAML found, in our words and at the place to look at."""
    problem = error.problem or ""
    unended = any(part in problem for part in ("end of stream", "expected ':'"))
    mark = (unended and error.context_mark) or error.problem_mark or error.context_mark
    text = problem or error.context or ""
    translated = next((words for pattern, words in _IN_WORDS.items() if pattern in text), text)
    began = error.context_mark if translated is not text and "is not closed" in translated else None
    where = f" (it began in line {began.line + 1})" if began else ""
    return Problem("", f"not YAML: {translated}{where}", *_place(mark) if mark else ())


def _loader(text: str) -> Any:
    """The parser for a text: libyaml, 20 times as fast, for one that is longer than anybody writes by hand."""
    return (
        yaml.SafeLoader
        if len(text) <= HAND_WRITTEN
        else getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )


def _events(text: str, file: str) -> Iterator[yaml.Event]:
    """What the file's one document consists of; what could grow or execute is refused before any of it is kept."""
    depth = documents = 0
    end = time.thread_time() + MOST_SECONDS
    for event in yaml.parse(text, Loader=_loader(text)):
        refusal = None
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            refusal = "a second document begins here; a scenario is one, take out the ---"
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            refusal = (
                "anchors and aliases (& and *) are not allowed; write the value out, or quote it"
            )
        elif getattr(event, "tag", None):
            refusal = f"tags are not allowed, found {value_in_words(event.tag)}; a scenario is data, write the value without it"
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > MOST_DEPTH:
            refusal = TOO_DEEP
        elif time.thread_time() > end:
            refusal = TOO_SLOW
        if refusal:
            raise ScenarioError([Problem("", refusal, *_place(event.start_mark))], file)
        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            yield event


def _value(
    event: Any, events: Iterator[Any], path: Path, places: dict, problems: list[Problem]
) -> Any:
    places[path] = _place(event.start_mark)
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(_value(event, events, (*path, len(items)), places, problems))
        return items
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(events, path, places, problems)
    if event.style:  # quoted or block: always text
        return event.value
    try:
        return scalar(event.value)
    except ValueError as error:
        problems.append(Problem(dotted(path), str(error), *places[path]))
        return None


def _mapping(
    events: Iterator[Any], path: Path, places: dict, problems: list[Problem]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        place, wrong = _place(event.start_mark), None
        key = event.value if isinstance(event, yaml.ScalarEvent) else None
        if key is None:
            key = _value(event, events, (*path, ""), {}, [])
            wrong = (
                f"keys are plain words, found {value_in_words(key)}; write key: value, with a space"
            )
        elif key == "<<":
            wrong = "merge keys (<<) are not allowed; write the keys out"
        elif key in values:
            wrong = f"this key stands here twice, first in line {places[(*path, key, '<key>')][0]}; keep one"
        if wrong:
            problems.append(
                Problem(dotted((*path, key) if isinstance(key, str) else path), wrong, *place)
            )
            _value(next(events), events, (*path, ""), {}, [])
        else:
            values[key] = _value(next(events), events, (*path, key), places, problems)
            places[(*path, key, "<key>")] = place
    return values


def scalar(text: str) -> Any:
    """A plain word of a scenario: null, true, false, a decimal integer, a finite decimal float, or text.

    Raises:
      ValueError: for what other YAML readers silently turn into another number.

    >>> [scalar(t) for t in ("1e-3", "no", "8", "true", "0.5", "-2.5E3", "null")]
    [0.001, 'no', 8, True, 0.5, -2500.0, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        if len(text) > 18:
            raise ValueError(
                f"found an integer of {len(text.lstrip('+-'))} digits; write at most 17"
            )
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise ValueError(
                f"found {shortened(text, 40)}, which is too large for a number; numbers end near 1.8e308"
            )
        return number
    if len(text) < 100 and _ODD.fullmatch(text):
        refusal = f"found {shortened(text, 40)}, which can be read in several ways"
        raise ValueError(f"{refusal}; write a plain decimal number, or quote it")
    return text
