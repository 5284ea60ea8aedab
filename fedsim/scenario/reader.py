"""YAML without its traps: a strict reader that keeps positions.

`1e-3` is a number, `no` is a word, duplicate keys, anchors, aliases, merge keys and tags are refused, depth and size are
bounded. What comes out is plain dictionaries, lists, numbers, strings and None, and a position for every path.
"""

import re
from typing import Any, NamedTuple

import yaml

from fedsim.scenario.problems import Problem, ScenarioError, dotted

MOST_BYTES, MOST_NODES, MOST_DEPTH = 256 * 1024, 20_000, 20
Path = tuple[str | int, ...]

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_ODD = re.compile(r"[-+]?0[0-9]+|[-+]?[0-9]+(:[0-5]?[0-9])+|[-+]?0[xob][0-9a-fA-F]+|[-+]?[0-9][0-9_]*_[0-9_]*")
_WORDS = {"null": None, "~": None, "": None, "true": True, "false": False}


class Document(NamedTuple):
    """A file as read: the values, and where each of them stands."""

    values: dict[str, Any]
    places: dict[Path, tuple[int, int]]
    file: str


def parse(text: str, file: str) -> Document:
    """Text of a scenario -> its values and their places.

    Raises:
      ScenarioError: for anything that is not a plain mapping.
    """
    if len(text.encode()) > MOST_BYTES:
        raise ScenarioError([Problem("", f"larger than {MOST_BYTES // 1024} KiB, which no scenario is")], file)
    try:
        _bound(text, file)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (None, None)
        what = f"not YAML: {error.problem or error.context}"
        raise ScenarioError([Problem("", what, *place)], file) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ScenarioError([Problem("", f"not YAML: {str(error).splitlines()[0]}")], file) from None
    places: dict[Path, tuple[int, int]] = {}
    problems: list[Problem] = []
    values = _value(node, (), places, problems) if node is not None else {}
    if not problems and not isinstance(values, dict):
        problems = [Problem("", f"a scenario is a mapping of keys to values, found {_kind(values)}", 1, 1)]
    if problems:
        raise ScenarioError(problems, file)
    return Document(values, places, file)


def _bound(text: str, file: str) -> None:
    """Refuse what could grow or execute, on events, before any tree is built."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        place = (event.start_mark.line + 1, event.start_mark.column + 1)
        what = None
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            what = "anchors and aliases are not allowed; write the value out"
        elif getattr(event, "tag", None):
            what = f"tags are not allowed, found {event.tag!r}; a scenario is data"
        nodes += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH or nodes > MOST_NODES:
            what = f"nested deeper than {MOST_DEPTH} levels or larger than {MOST_NODES} values"
        if what:
            raise ScenarioError([Problem("", what, *place)], file)


def _value(node: yaml.Node, path: Path, places: dict, problems: list[Problem]) -> Any:
    place = (node.start_mark.line + 1, node.start_mark.column + 1)
    places[path] = place
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, i), places, problems) for i, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, places, problems)
    assert isinstance(node, yaml.ScalarNode)
    if node.style is not None:  # quoted or block: always text
        return node.value
    try:
        return scalar(node.value)
    except ValueError as error:
        problems.append(Problem(dotted(path), str(error), *place))
        return None


def _mapping(node: yaml.MappingNode, path: Path, places: dict, problems: list[Problem]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        place = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        key = key_node.value
        if not isinstance(key_node, yaml.ScalarNode) or not isinstance(key, str) or key == "<<":
            problems.append(Problem(dotted(path), "keys are plain words", *place))
        elif key in values:
            problems.append(Problem(dotted((*path, key)), "this key stands here twice; keep one", *place))
        else:
            values[key] = _value(value_node, (*path, key), places, problems)
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
        if len(text) > 40:
            raise ValueError(f"a number of {len(text)} digits; at most 40")
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise ValueError(f"{text[:40]} is too large for a number")
        return number
    if _ODD.fullmatch(text):
        raise ValueError(f"{text[:40]} can be read in several ways; write a plain decimal number, or quote it")
    return text


def _kind(value: Any) -> str:
    return {dict: "a mapping", list: "a list", str: "text", type(None): "nothing"}.get(type(value), repr(value)[:40])
