"""Pydantic's errors in our words, at their place in the file: what was found, what is allowed, what to do."""

import re
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple, Union

from fedsim.errors import MOST_PROBLEMS, Problem, did_you_mean, dotted, nearest, shortened
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.limits import MOST
from fedsim.scenario.annotations import annotation_of, nested_in, sections_in
from fedsim.scenario.expected import (
    SECTIONS_OF,
    advice,
    families_of,
    is_section,
    joined,
    list_command,
    literal_words,
    names_of,
    plain_types,
    type_in_words,
    value_in_words,
    with_article,
)
from fedsim.scenario.reader import Document, Path
from fedsim.scenario.shorthand import meant_as_call, short_keys
from fedsim.synonyms import answer, synonym

PLUGIN = "; one of your own needs --plugin"
NESTED = 2  # sections within sections that a misplaced key is looked for in
ALIKE = 0.87  # of a word to one that may stand there: the words are short


class Spot(NamedTuple):
    """Where an error is: its path in the file, what may stand there, and the section that path ends in or runs out of."""

    path: Path
    annotation: Any
    section: Any = None


def problems_of(document: Document, model: Any, errors: list[Any], above: Path = ()) -> list[Problem]:
    """Pydantic's errors in our words, one line per place in the file.

    Args:
      document: as written.
      model: that it was validated against.
      errors: pydantic's.
      above: path of what was validated, where it is a part of the document.
    """
    texts = blamed(document, model, errors, above)
    problems = [problem_at(document, path, text) for path, text in texts.items()]
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))


def blamed(document: Document, model: Any, errors: list[Any], above: Path = ()) -> dict[Path, str]:
    """The paths that pydantic's errors are about, each with what to say of it; arguments as of `problems_of`."""
    texts: dict[Path, str] = {}
    mistyped: set[Path] = set()  # where a value is of no kind that may stand there
    for error in errors[: 4 * MOST_PROBLEMS]:
        path, text = _path_and_text(document, model, _locate(model, error["loc"], above), error)
        texts.setdefault(path, text)
        if text.startswith("should be"):
            mistyped.add(path)
    # of a list or mapping that may also be a number, its own entries are at fault, not that it is no number
    outer = {path[:end] for path in texts for end in range(len(path))}
    return {path: text for path, text in texts.items() if path not in mistyped & outer}


def in_order(document: Document, problems: Iterable[Problem]) -> list[Problem]:
    """Problems of several stages in the order of the file, none of them twice.

    Of a mapping without lines, the order is that of the keys on the way to each place.
    """

    def place(problem: Problem) -> tuple[int, int, list[int]]:
        value: Any = document.values
        positions: list[int] = []
        for part in re.findall(r"[^.[\]]+", problem.where.partition(" ")[0]):
            if isinstance(value, dict) and part in value:
                positions.append(list(value).index(part))
                value = value[part]
            elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
                positions.append(int(part))
                value = value[int(part)]
        return problem.line or 0, problem.column or 0, positions

    return sorted(dict.fromkeys(problems), key=place)


def meant_paths(path: Path, root: Any) -> set[Path]:
    """Where the value of an unknown key may have been meant to stand, so that what stands there is not what was meant.

    Args:
      path: of the key.
      root: annotation of the whole.
    """
    key = str(path[-1])
    section = _locate(root, path, ()).section
    if isinstance(section, list) or section is None:
        return {path[:-1]}
    if other := synonym(key, *(["key:top"] if len(path) == 1 else []), "key"):
        return {tuple(other.ours.split("."))} if other.ours else set()
    if near := nearest(key, names_of(section)):
        return {(*path[:-1], near)}
    within = [*_holders(section, key, path[:-1])] or [*_holders(root, key)]
    return {tuple(f"{place}.{key}".strip(".").split(".")) for place in within}


def problem_at(document: Document, path: Path, text: str) -> Problem:
    """A problem with the place in the file that its path has, or the nearest one above it; and which `--set` made it."""
    where = dotted(part for part in path if part != "<key>")
    edits = [edit for at, edit in document.edits if path[: len(at)] == at or at[: len(path)] == path != ()]
    above = path
    while above and above not in document.places:
        above = above[:-1]
    if not edits:
        return Problem(where, text, *document.places.get(above, (None, None)))
    place = document.places.get(above, (None, None)) if above else (None, None)
    return Problem(where, f"{text} (--set {shortened(edits[-1], 60)})", *place)


def _path_and_text(document: Document, root: Any, spot: Spot, error: Any) -> tuple[Path, str]:
    """The path to blame and what to say of it."""
    path, value = spot.path, error["input"]
    match error["type"]:
        case "extra_forbidden" | "invalid_key":
            return (*path, "<key>"), _given_twice(
                document, path
            ) or f"unknown key{_place_for(path, spot.section, root)}"
        case "missing":
            return path, _missing(document, spot)
        case "value_error":
            return path, str(error["ctx"]["error"])
        case "union_tag_not_found":
            return path, f"needs a kind: {{kind: NAME, ...}}{_kinds(spot.section)}"
        case "union_tag_invalid":
            written = _value_at(document, path)
            if not isinstance(written, dict) and plain_types(spot.annotation):
                return path, f"should be {type_in_words(spot.annotation)}, found {value_in_words(written)}"
            return (*path, "kind") if isinstance(written, dict) else path, _no_kind(value["kind"], spot.section)
        case "less_than_equal" | "greater_than_equal" if isinstance(value, int) and not -MOST <= value <= MOST:
            bounds = f"{type_in_words(spot.annotation)}, and at most {MOST}"
            return path, f"should be {bounds}, found {value_in_words(value)}"
    near = nearest(value, literal_words(spot.annotation), ALIKE) if isinstance(value, str) else None
    remedy = f"; did you mean '{near}'?" if near else advice(value, spot.annotation)
    return path, f"should be {type_in_words(spot.annotation)}, found {value_in_words(value)}{remedy}"


def _given_twice(document: Document, path: Path) -> str:
    """A key of the client that is short for one of its optimizer, where that stands beside it; else nothing."""
    client = document.values.get("client")
    if path[:1] != ("client",) or len(path) != 2 or not isinstance(client, dict) or path[1] not in short_keys(client):
        return ""
    line = document.places.get(("client", "optimizer", "<key>"))
    other = "client.optimizer" + (f" of line {line[0]}" if line else "")
    return f"is short for optimizer: {{kind: sgd, {path[1]}: ...}}, and there is {other}; keep one of them"


def _missing(document: Document, spot: Spot) -> str:
    """A key that must be given; where the link stands as a bare name, how to write it with its key."""
    *above, key = spot.path
    link = _value_at(document, tuple(above))
    if not isinstance(link, str):
        return f"is missing; write {key}: with {type_in_words(spot.annotation)}"
    kind = link.partition("(")[0].strip()
    form = f"{kind}({key}=...)" if spot.path[0] == "method" else f"{{kind: {kind}, {key}: ...}}"
    return f"is missing; write {form}, where {key} is {type_in_words(spot.annotation)}"


def _value_at(document: Document, path: Path) -> Any:
    value: Any = document.values
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _no_kind(kind: Any, sections: list[Any]) -> str:
    """A name that is no kind of a section: a near miss, a kind that belongs elsewhere, or what there is."""
    families = families_of(sections)
    if not isinstance(kind, str):
        return f"should be the name of {with_article(families)}, found {value_in_words(kind)}{_kinds(sections)}"
    text = f"no {joined(families)} {value_in_words(kind)}"
    factories = {s.__name__: FAMILIES[s.family][s.__name__] for s in sections if hasattr(s, "family")}
    if call := meant_as_call(kind, factories):
        return f"{text}; {call}"
    elsewhere = [family for family in FAMILIES if ALIASES.get(kind, kind) in FAMILIES[family]]
    if elsewhere:
        family = elsewhere[0]
        return f"{text}; that is {with_article([family])}, which belongs into {SECTIONS_OF.get(family, family)}"
    if known := synonym(kind, *(f"kind:{family}" for family in families), "kind"):
        return f"{text}; {answer(known, value=kind)}"
    near = nearest(kind, factories.keys() | {alias for alias, name in ALIASES.items() if name in factories})
    return f"{text}; did you mean '{near}'?" if near else f"{text}{_kinds(sections)}{PLUGIN}"


def _kinds(sections: list[Any]) -> str:
    kinds = (section.__name__ for section in sections if hasattr(section, "family"))
    return did_you_mean("", kinds, list_command(families_of(sections)))


def _place_for(path: Path, section: Any, root: Any) -> str:
    """Where an unknown key was probably meant to be: a key of a neighbour, a near miss, or what is known."""
    key, known = str(path[-1]), list(names_of(section))
    if other := synonym(key, *(["key:top"] if len(path) == 1 else []), "key"):
        sibling = dotted((*path[:-1], other.ours.rpartition(".")[2]))  # its key may stand right there
        right_there = other.ours != sibling and other.ours.rpartition(".")[2] in known
        return f"; write {sibling}" if right_there else f"; {answer(other)}"
    if key.endswith(")"):
        return "; it is the end of a call, which a comma cuts here: write the call in quotes"
    below = list(_holders(section, key, path[:-1]))
    if below:
        return f"; it belongs into {' or '.join(below[:2])}"
    if nearest(key, known):
        return did_you_mean(key, known)
    family = getattr(section, "family", None)
    if family:
        relatives = [s.__name__ for s in _sections(root) if s.family == family and key in names_of(s)]
        if relatives and section.__name__ not in relatives:
            return f" of {section.__name__}; it is one of {', '.join(relatives[:3])}{' ...' * (len(relatives) > 3)}"
    elsewhere = [place or "the top level" for place in _holders(root, key)] if is_section(root) else []
    near = [place for place in elsewhere if place.split(".")[0] == path[0]] or elsewhere
    if near:
        return f"; it belongs into {' or '.join(near[:2])}"
    return did_you_mean(key, known)


def _holders(annotation: Any, key: str, path: Path = (), depth: int = NESTED) -> Iterator[str]:
    """Places at and below a section where a key is known, the highest first."""
    sections = list(sections_in(annotation))
    if any(key in names_of(section) for section in sections):
        yield dotted(path)
    if depth:
        within = {name: inner for section in sections for name, inner in nested_in(section).items()}
        for name, inner in within.items():
            yield from _holders(inner, key, (*path, name), depth - 1)


def _sections(root: Any) -> Iterator[Any]:
    """All kinds of all families at and below an annotation."""
    for section in sections_in(root):
        if hasattr(section, "family"):
            yield section
        for inner in nested_in(section).values():
            yield from _sections(inner)


def _locate(model: Any, loc: tuple, path: Path) -> Spot:
    """A pydantic location, in which the names of union branches stand, -> where that is in the file."""
    origin, arguments = typing.get_origin(model), typing.get_args(model)
    if origin is Annotated:
        inner = _locate(arguments[0], loc, path)
        return inner if inner.path != path or loc else Spot(path, model, inner.section)
    if is_section(model):
        if not loc:
            return Spot(path, model, model)
        if loc[0] not in names_of(model):
            return Spot((*path, loc[0]), None, model)
        return _locate(annotation_of(model.model_fields[loc[0]]), loc[1:], (*path, loc[0]))
    if origin is list and loc:
        return _locate(arguments[0], loc[1:], (*path, loc[0]))
    if origin in (Union, types.UnionType) and loc:
        members = [member for member in arguments if member is not type(None)]
        if len(members) == 1:  # pydantic names no branch
            return _locate(members[0], loc, path)
        for member in members:
            if is_section(member) and member.__name__ == loc[0]:
                return _locate(member, loc[1:], path)
        return _branch(model, loc, path)
    return Spot(path, model, list(sections_in(model)))


def _branch(model: Any, loc: tuple, path: Path) -> Spot:
    """A union of unlike things, of which a location names one in pydantic's way."""
    label, rest = str(loc[0]), loc[1:]
    for member in typing.get_args(model):
        bare = typing.get_args(member)[0] if typing.get_origin(member) is Annotated else member
        if label.startswith("list[") and typing.get_origin(bare) is list and rest:
            return _locate(member, rest, path)
        if label.startswith(("function", "tagged")) and list(sections_in(member)):
            inner = _locate(member, rest, path)
            return inner if rest else Spot(path, model, inner.section)
    return Spot(path, model, list(sections_in(model)))
