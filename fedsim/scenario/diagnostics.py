"""Pydantic's errors in our words, at their place in the file: what was found, what is allowed, what to do."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fedsim.errors import MOST_PROBLEMS, Problem, did_you_mean, dotted, nearest, shortened
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.limits import MOST
from fedsim.scenario import schema
from fedsim.scenario.annotations import (
    annotation_of,
    fields_of,
    item_of,
    kinds_of,
    names_of,
    nested_in,
    section_for,
    sections_in,
)
from fedsim.scenario.expected import (
    SECTIONS_OF,
    advice,
    families_of,
    is_section,
    joined,
    list_command,
    literal_words,
    plain_types,
    type_in_words,
    value_in_words,
    with_article,
)
from fedsim.scenario.reader import Document, Path, value_at
from fedsim.scenario.schema import Kind, Kinds
from fedsim.scenario.shorthand import meant_as_call, short_keys
from fedsim.synonyms import answer, synonym

PLUGIN = "; one of your own needs --plugin"
NESTED = 2  # sections within sections that a misplaced key is looked for in
ALIKE = 0.87  # of a word to one that may stand there: the words are short


class Spot(NamedTuple):
    """Where an error is: its path in the file, what may stand there, and the section whose key it is or was to be."""

    path: Path
    annotation: Any
    section: Any = None


def problems_of(
    document: Document, annotation: Any, value: Any, errors: list[Any], above: Path = ()
) -> list[Problem]:
    """Pydantic's errors in our words, one line per place in the file.

    Args:
      document: as written.
      annotation: that a value was validated by.
      value: that was validated, shorthand written out.
      errors: pydantic's.
      above: path of the value, where it is a part of the document.
    """
    texts = blamed(document, annotation, value, errors, above)
    problems = [problem_at(document, path, text) for path, text in texts.items()]
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))


def blamed(
    document: Document, annotation: Any, value: Any, errors: list[Any], above: Path = ()
) -> dict[Path, str]:
    """The paths that pydantic's errors are about, each with what to say of it; arguments as of `problems_of`."""
    texts: dict[Path, str] = {}
    for error in errors[: 4 * MOST_PROBLEMS]:
        spot = _spot(annotation, value, error["loc"])
        path, text = _path_and_text(
            document, annotation, spot._replace(path=(*above, *spot.path)), error
        )
        texts.setdefault(path, text)
    return texts


def _spot(annotation: Any, value: Any, loc: Path) -> Spot:
    """The place of an error: its location as far as it leads through keys; behind them pydantic names plain types."""
    section = None
    path: Path = ()
    for part in loc:
        item = item_of(annotation) if isinstance(value, list) else None
        if item is not None:
            annotation = item
        else:
            section = section_for(annotation, value)
            if section is None:
                break
            if part not in names_of(section):
                return Spot((*path, part), None, section)
            annotation = annotation_of(fields_of(section)[str(part)])
        path = (*path, part)
        value = value_at(value, (part,))
    return Spot(path, annotation, section)


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


def meant_paths(path: Path, root: Any, value: Any) -> set[Path]:
    """Where the value of an unknown key may have been meant to stand, so that what stands there is not what was meant.

    Args:
      path: of the key.
      root: annotation of the whole.
      value: the whole.
    """
    key = str(path[-1])
    section = _spot(root, value, path).section
    if section is None:
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
    edits = [
        edit
        for at, edit in document.edits
        if path[: len(at)] == at or at[: len(path)] == path != ()
    ]
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
        case schema.NO_KIND if not plain_types(spot.annotation):
            return path, f"needs a kind: {{kind: NAME, ...}}{_names_of(kinds_of(spot.annotation))}"
        case schema.UNKNOWN_KIND if isinstance(value, dict) or not plain_types(spot.annotation):
            return _unknown_kind(document, spot, value)
        case "less_than_equal" | "greater_than_equal" if (
            isinstance(value, int) and not -MOST <= value <= MOST
        ):
            bounds = f"{type_in_words(spot.annotation)}, and at most {MOST}"
            return path, f"should be {bounds}, found {value_in_words(value)}"
    near = nearest(value, literal_words(spot.annotation), ALIKE) if isinstance(value, str) else None
    remedy = f"; did you mean '{near}'?" if near else advice(value, spot.annotation)
    return (
        path,
        f"should be {type_in_words(spot.annotation)}, found {value_in_words(value)}{remedy}",
    )


def _given_twice(document: Document, path: Path) -> str:
    """A key of the client that is short for one of its optimizer, where that stands beside it; else nothing."""
    client = document.values.get("client")
    if (
        path[:1] != ("client",)
        or len(path) != 2
        or not isinstance(client, dict)
        or path[1] not in short_keys(client)
    ):
        return ""
    line = document.places.get(("client", "optimizer", "<key>"))
    other = "client.optimizer" + (f" of line {line[0]}" if line else "")
    return f"is short for optimizer: {{kind: sgd, {path[1]}: ...}}, and there is {other}; keep one of them"


def _missing(document: Document, spot: Spot) -> str:
    """A key that must be given; where the link stands as a bare name, how to write it with its key."""
    *above, key = spot.path
    link = value_at(document.values, above)
    if not isinstance(link, str):
        return f"is missing; write {key}: with {type_in_words(spot.annotation)}"
    kind = link.partition("(")[0].strip()
    form = f"{kind}({key}=...)" if spot.path[0] == "method" else f"{{kind: {kind}, {key}: ...}}"
    return f"is missing; write {form}, where {key} is {type_in_words(spot.annotation)}"


def _unknown_kind(document: Document, spot: Spot, value: Any) -> tuple[Path, str]:
    """The path to blame and what to say of a name that is no kind."""
    written = value_at(document.values, spot.path)
    kinds = kinds_of(spot.annotation)
    assert kinds is not None
    text = _no_kind(kinds.spelled_out(value)["kind"], kinds)
    return ((*spot.path, "kind") if isinstance(written, dict) else spot.path), text


def _no_kind(name: Any, kinds: Kinds) -> str:
    """A name that is no kind of a place: a near miss, a kind that belongs elsewhere, or what there is."""
    families = families_of(kinds)
    if not isinstance(name, str):
        return f"should be the name of {with_article(families)}, found {value_in_words(name)}{_names_of(kinds)}"
    text = f"no {joined(families)} {value_in_words(name)}"
    factories = {kind.name: kind.factory for kind in kinds}
    if call := meant_as_call(name, factories):
        return f"{text}; {call}"
    elsewhere = [family for family in FAMILIES if ALIASES.get(name, name) in FAMILIES[family]]
    if elsewhere:
        family = elsewhere[0]
        return f"{text}; that is {with_article([family])}, which belongs into {SECTIONS_OF.get(family, family)}"
    if known := synonym(name, *(f"kind:{family}" for family in families), "kind"):
        return f"{text}; {answer(known, value=name)}"
    near = nearest(
        name, factories.keys() | {alias for alias, kind in ALIASES.items() if kind in factories}
    )
    return f"{text}; did you mean '{near}'?" if near else f"{text}{_names_of(kinds)}{PLUGIN}"


def _names_of(kinds: Kinds | None) -> str:
    """The kinds that there are."""
    assert kinds is not None
    return did_you_mean("", [kind.name for kind in kinds], list_command(families_of(kinds)))


def _place_for(path: Path, section: Any, root: Any) -> str:
    """Where an unknown key was probably meant to be: a key of a neighbour, a near miss, or what is known."""
    key, known = str(path[-1]), list(names_of(section))
    if other := synonym(key, *(["key:top"] if len(path) == 1 else []), "key"):
        sibling = dotted(
            (*path[:-1], other.ours.rpartition(".")[2])
        )  # its key may stand right there
        right_there = other.ours != sibling and other.ours.rpartition(".")[2] in known
        return f"; write {sibling}" if right_there else f"; {answer(other)}"
    if key.endswith(")"):
        return "; it is the end of a call, which a comma cuts here: write the call in quotes"
    below = list(_holders(section, key, path[:-1]))
    if below:
        return f"; it belongs into {' or '.join(below[:2])}"
    if nearest(key, known):
        return did_you_mean(key, known)
    if isinstance(section, Kind):
        relatives = [
            kind.name
            for kind in _kinds_below(root)
            if kind.family == section.family and key in kind.keys
        ]
        if relatives and section.name not in relatives:
            return f" of {section.name}; it is one of {', '.join(relatives[:3])}{' ...' * (len(relatives) > 3)}"
    elsewhere = (
        [place or "the top level" for place in _holders(root, key)] if is_section(root) else []
    )
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


def _kinds_below(root: Any) -> Iterator[Kind]:
    """All kinds of all families at and below an annotation."""
    for section in sections_in(root):
        if isinstance(section, Kind):
            yield section
        for inner in nested_in(section).values():
            yield from _kinds_below(inner)
