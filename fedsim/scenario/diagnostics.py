"""Pydantic's errors in our words, at their position in the file.

Every message says what was found, what is allowed, and what to do.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fedsim.errors import MAX_PROBLEMS, Problem, did_you_mean, dotted, nearest, shortened
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.limits import MAX_INTEGER
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
    joined,
    list_command,
    literal_words,
    plain_types,
    type_in_words,
    value_in_words,
    with_article,
)
from fedsim.scenario.reader import Document, KeyPath, value_at
from fedsim.scenario.schema import AllowedKinds, KindSchema, is_section
from fedsim.scenario.shorthand import meant_as_call, short_keys
from fedsim.synonyms import Synonym, answer, synonym

PLUGIN = "; to use one of your own, add --plugin"

# How many sections deep a misplaced key is looked for.
MAX_DEPTH = 2

# How similar a value must be to an allowed word to be taken for it: the words are short.
MIN_SIMILARITY = 0.87


class Spot(NamedTuple):
    """Where an error is.

    Attributes:
      path: its path in the file.
      annotation: what is allowed there; None for an unknown key.
      section: the section or kind that the last key of the path belongs to, if any.
    """

    path: KeyPath
    annotation: Any
    section: Any = None


def problems_of(
    document: Document, annotation: Any, value: Any, errors: list[Any], above: KeyPath = ()
) -> list[Problem]:
    """Return pydantic's errors in our words, one per path, in the order of the file.

    Args:
      document: the document as written.
      annotation: the annotation that a value was validated by.
      value: the validated value, with shorthand expanded.
      errors: pydantic's errors.
      above: the path of the value in the document.
    """
    texts = texts_by_path(document, annotation, value, errors, above)
    problems = [problem_at(document, path, text) for path, text in texts.items()]
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))


def texts_by_path(
    document: Document, annotation: Any, value: Any, errors: list[Any], above: KeyPath = ()
) -> dict[KeyPath, str]:
    """Return path -> what is wrong there, of pydantic's errors; arguments as of `problems_of`."""
    texts: dict[KeyPath, str] = {}
    for error in errors[: 4 * MAX_PROBLEMS]:
        spot = _spot(annotation, value, error["loc"])
        spot = spot._replace(path=(*above, *spot.path))
        path, text = _path_and_text(document, annotation, spot, error)
        texts.setdefault(path, text)
    return texts


def _spot(annotation: Any, value: Any, loc: KeyPath) -> Spot:
    """Return where an error is: its `loc`, without the types that pydantic appends to the keys."""
    section = None
    path: KeyPath = ()
    for key in loc:
        item = item_of(annotation) if isinstance(value, list) else None
        if item is not None:
            annotation = item
        else:
            section = section_for(annotation, value)
            if section is None:
                break
            if key not in names_of(section):
                return Spot((*path, key), None, section)
            annotation = annotation_of(fields_of(section)[str(key)])
        path = (*path, key)
        value = value_at(value, (key,))
    return Spot(path, annotation, section)


def in_order(document: Document, problems: Iterable[Problem]) -> list[Problem]:
    """Return problems of several stages in the order of the file, each once.

    The problems of a mapping without lines are in the order of its keys.
    """

    def position(problem: Problem) -> tuple[int, int, list[int]]:
        indices = _indices(document.values, problem.where)
        return problem.line or 0, problem.column or 0, indices

    return sorted(dict.fromkeys(problems), key=position)


def _indices(values: Any, where: str) -> list[int]:
    """Return the index of each key and item on the way to a place."""
    indices: list[int] = []
    dotted_path = where.partition(" ")[0]
    for key in re.findall(r"[^.[\]]+", dotted_path):
        if isinstance(values, dict) and key in values:
            indices.append(list(values).index(key))
            values = values[key]
        elif isinstance(values, list) and key.isdigit() and int(key) < len(values):
            indices.append(int(key))
            values = values[int(key)]
    return indices


def problem_at(document: Document, path: KeyPath, text: str) -> Problem:
    """Return a problem at the position of its path, or of the nearest one above it in the file.

    If `--set` gave the value, the problem says so.
    """
    where = dotted(key for key in path if key != "<key>")
    nearest_path = path
    while nearest_path and nearest_path not in document.positions:
        nearest_path = nearest_path[:-1]
    line, column = document.positions.get(nearest_path, (None, None))

    edit = _edit_of(document, path)
    if not edit:
        return Problem(where, text, line, column)
    text = f"{text} (--set {shortened(edit, 60)})"
    if not nearest_path:
        # The value is not in the file: its beginning would say nothing.
        return Problem(where, text)
    return Problem(where, text, line, column)


def _edit_of(document: Document, path: KeyPath) -> str:
    """Return the last `--set` of a value at, above or below a path."""
    last_edit = ""
    for edited_path, edit in document.edits:
        at_or_above = path[: len(edited_path)] == edited_path
        below = path != () and edited_path[: len(path)] == path
        if at_or_above or below:
            last_edit = edit
    return last_edit


def _path_and_text(document: Document, root: Any, spot: Spot, error: Any) -> tuple[KeyPath, str]:
    """Return the path that an error is about, and what to say.

    What has no message of its own here is a value of the wrong type or beyond its bounds.
    """
    path = spot.path
    value = error["input"]
    match error["type"]:
        case "extra_forbidden" | "invalid_key":
            return (*path, "<key>"), _unknown_key(document, root, spot)
        case "missing":
            return path, _missing(document, spot)
        case "value_error":
            return path, str(error["ctx"]["error"])
        # Where a plain value is allowed as well, the message names all that is.
        case schema.NO_KIND if not plain_types(spot.annotation):
            return path, f"needs a kind: {{kind: NAME, ...}}{_known(kinds_of(spot.annotation))}"
        case schema.UNKNOWN_KIND if isinstance(value, dict) or not plain_types(spot.annotation):
            return _unknown_kind(document, spot, value)
        case "less_than_equal" | "greater_than_equal" if _is_too_large(value):
            bounds = f"{type_in_words(spot.annotation)}, and at most {MAX_INTEGER}"
            return path, f"should be {bounds}, found {value_in_words(value)}"
    return path, _wrong_value(spot.annotation, value)


def _is_too_large(value: Any) -> bool:
    """Whether a value is an integer beyond the bounds that go without saying."""
    return isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER


def _wrong_value(annotation: Any, value: Any) -> str:
    """Return what is allowed, what was found, and what to write instead, if that is known."""
    remedy = advice(value, annotation)
    if isinstance(value, str):
        near = nearest(value, literal_words(annotation), MIN_SIMILARITY)
        if near:
            remedy = f"; did you mean '{near}'?"
    return f"should be {type_in_words(annotation)}, found {value_in_words(value)}{remedy}"


def _missing(document: Document, spot: Spot) -> str:
    """Return what to write for a missing key; for a bare name, how to write it with the key."""
    *above, key = spot.path
    expected = type_in_words(spot.annotation)
    link = value_at(document.values, above)
    if not isinstance(link, str):
        return f"is missing; write {key}: with {expected}"

    kind = link.partition("(")[0].strip()
    form = f"{{kind: {kind}, {key}: ...}}"
    if spot.path[0] == "method":
        form = f"{kind}({key}=...)"
    return f"is missing; write {form}, where {key} is {expected}"


def _unknown_kind(document: Document, spot: Spot, value: Any) -> tuple[KeyPath, str]:
    """Return the path to blame for a name that is not a kind, and what to say."""
    kinds = kinds_of(spot.annotation)
    assert kinds is not None
    text = _no_kind(kinds.as_mapping(value)["kind"], kinds)
    if isinstance(value_at(document.values, spot.path), dict):
        return (*spot.path, "kind"), text
    return spot.path, text


def _no_kind(name: Any, kinds: AllowedKinds) -> str:
    """Return what a name that is not among the kinds may have been meant as."""
    families = families_of(kinds)
    found = value_in_words(name)
    if not isinstance(name, str):
        return f"should be the name of {with_article(families)}, found {found}{_known(kinds)}"
    return f"no {joined(families)} {found}{_remedy_of_kind(name, kinds)}"


def _remedy_of_kind(name: str, kinds: AllowedKinds) -> str:
    """Return what to write for a name that is not among the kinds: the likeliest guess first."""
    factories = {kind.name: kind.factory for kind in kinds}
    if call := meant_as_call(name, factories):
        return f"; {call}"

    other_families = [family for family in FAMILIES if ALIASES.get(name, name) in FAMILIES[family]]
    if other_families:
        family = other_families[0]
        section = SECTIONS_OF.get(family, family)
        return f"; that is {with_article([family])}, which belongs in {section}"

    families = families_of(kinds)
    if ours := synonym(name, *(f"kind:{family}" for family in families), "kind"):
        return f"; {answer(ours, value=name)}"

    aliases = {alias for alias, kind in ALIASES.items() if kind in factories}
    if near := nearest(name, factories.keys() | aliases):
        return f"; did you mean '{near}'?"
    return f"{_known(kinds)}{PLUGIN}"


def _known(kinds: AllowedKinds | None) -> str:
    """Return the names of the kinds, or the command that lists them."""
    assert kinds is not None
    return did_you_mean("", [kind.name for kind in kinds], list_command(families_of(kinds)))


def _unknown_key(document: Document, root: Any, spot: Spot) -> str:
    if _is_given_in_optimizer(document, spot.path):
        return _given_twice(document, spot.path[1])
    return f"unknown key{_remedy_of_key(spot.path, spot.section, root)}"


def _is_given_in_optimizer(document: Document, path: KeyPath) -> bool:
    """Whether a path is that of a key of `client` that is short for one of its optimizer's."""
    client = document.values.get("client")
    return (
        len(path) == 2
        and path[0] == "client"
        and isinstance(client, dict)
        and path[1] in short_keys(client)
    )


def _given_twice(document: Document, key: str | int) -> str:
    """Return that a short key of `client` is given next to its optimizer, which excludes it."""
    position = document.positions.get(("client", "optimizer", "<key>"))
    line = f" of line {position[0]}" if position else ""
    short = f"is short for optimizer: {{kind: sgd, {key}: ...}}"
    return f"{short}, but there is client.optimizer{line}; keep one of them"


def _remedy_of_key(path: KeyPath, section: Any, root: Any) -> str:
    """Return where an unknown key was probably meant to be, or which keys there are.

    The guesses, in this order: the field's other name for a key, a key of an inner section, a
    misspelt key, a key of another kind, a key of another section.
    """
    key = str(path[-1])
    known = list(names_of(section))
    if ours := _synonym_of(key, path):
        return _remedy_by_synonym(ours, path, known)
    if key.endswith(")"):
        return "; it is the end of a call that a comma cut off: write the call in quotes"
    if below := list(_holders(section, key, path[:-1])):
        return _belongs_in(below)
    if near := nearest(key, known):
        return f"; did you mean '{near}'?"

    relatives = _relatives(section, key, root)
    if relatives and section.name not in relatives:
        listed = ", ".join(relatives[:3])
        if len(relatives) > 3:
            listed += " ..."
        return f" of {section.name}; it is a key of {listed}"

    elsewhere = list(_holders(root, key)) if is_section(root) else []
    in_this_section = [holder for holder in elsewhere if holder.split(".")[0] == path[0]]
    if elsewhere:
        return _belongs_in(in_this_section or elsewhere)
    return did_you_mean(key, known)


def _synonym_of(key: str, path: KeyPath) -> Synonym | None:
    """Return our name for a key that the field calls by another one, None if there is none."""
    if len(path) == 1:
        return synonym(key, "key:top", "key")
    return synonym(key, "key")


def _remedy_by_synonym(ours: Synonym, path: KeyPath, known: list[str]) -> str:
    name = ours.ours.rpartition(".")[2]
    sibling = dotted((*path[:-1], name))
    # The key that is meant may also be in this section.
    if name in known and ours.ours != sibling:
        return f"; write {sibling}"
    return f"; {answer(ours)}"


def _belongs_in(holders: list[str]) -> str:
    """Return that a key belongs in the first of these sections, the empty path being the top."""
    places = [f"in {holder}" if holder else "at the top level" for holder in holders[:2]]
    return f"; it belongs {' or '.join(places)}"


def _relatives(section: Any, key: str, root: Any) -> list[str]:
    """Return the kinds of the same family as this one that have a key."""
    if not isinstance(section, KindSchema):
        return []
    kinds = [kind for kind in _kinds_below(root) if kind.family == section.family]
    return list(dict.fromkeys(kind.name for kind in kinds if key in kind.keys))


def _holders(
    annotation: Any, key: str, path: KeyPath = (), depth: int = MAX_DEPTH
) -> Iterator[str]:
    """Yield the dotted paths of sections, at and below an annotation, that have a key."""
    sections = list(sections_in(annotation))
    if any(key in names_of(section) for section in sections):
        yield dotted(path)
    if depth == 0:
        return

    nested: dict[str, Any] = {}
    for section in sections:
        nested |= nested_in(section)
    for name, inner in nested.items():
        yield from _holders(inner, key, (*path, name), depth - 1)


def _kinds_below(annotation: Any) -> Iterator[KindSchema]:
    """Yield all kinds, of all families, at and below an annotation."""
    for section in sections_in(annotation):
        if isinstance(section, KindSchema):
            yield section
        for inner in nested_in(section).values():
            yield from _kinds_below(inner)


def meant_paths(path: KeyPath, root: Any, value: Any) -> set[KeyPath]:
    """Return the paths that an unknown key may have been meant for.

    The values there are perhaps not what the author wanted, and are not to be judged.

    Args:
      path: the path of the key.
      root: the annotation of the scenario.
      value: the scenario.
    """
    key = str(path[-1])
    above = path[:-1]
    section = _spot(root, value, path).section
    if section is None:
        return {above}
    if ours := _synonym_of(key, path):
        return {tuple(ours.ours.split("."))} if ours.ours else set()
    if near := nearest(key, names_of(section)):
        return {(*above, near)}

    holders = list(_holders(section, key, above)) or list(_holders(root, key))
    paths = [f"{holder}.{key}".strip(".") for holder in holders]
    return {tuple(dotted_path.split(".")) for dotted_path in paths}
