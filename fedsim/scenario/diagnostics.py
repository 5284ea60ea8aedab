"""Pydantic's errors in our words, at their position in the file.

Every message says what was found, what is allowed, and what to do.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fedsim.errors import MAX_PROBLEMS, Problem, did_you_mean, dotted, near_miss, nearest, shortened
from fedsim.kinds import ALIASES
from fedsim.limits import MAX_INTEGER
from fedsim.scenario import schema
from fedsim.scenario.annotations import (
    annotation_of,
    fields_of,
    item_of,
    kinds_of,
    literal_words,
    names_of,
    plain_types,
    section_for,
)
from fedsim.scenario.expected import (
    advice,
    families_of,
    joined,
    list_command,
    type_in_words,
    value_in_words,
    with_article,
)
from fedsim.scenario.guesses import belonging, families_with, in_words, meant, row_of, what_is
from fedsim.scenario.index import KEY, missing_field, refusal
from fedsim.scenario.keys import places
from fedsim.scenario.reader import NOWHERE, Document, KeyPath, value_at
from fedsim.scenario.schema import AllowedKinds, KindSchema, is_section
from fedsim.scenario.shorthand import CALL, meant_as_call, short_keys
from fedsim.synonyms import ABSENT, PARAMETER, Synonym, parameters_like, synonym

PLUGIN = "; to use one of your own, add --plugin"

# What may be meant as a number: `10`, `0.1`, `10 %`.
NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?\s?%?")

# How many kinds are named that have the keys of a mapping without a kind.
MAX_FITTING = 6
MAX_TEXT = 180  # characters of what is allowed, what was found, and a remedy

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
    """Return pydantic's errors in our words, one per path, in the order of the file."""
    texts = texts_by_path(document, annotation, value, errors, above)
    return in_order(document, [problem_at(document, path, text) for path, text in texts.items()])


def texts_by_path(
    document: Document, annotation: Any, value: Any, errors: list[Any], above: KeyPath = ()
) -> dict[KeyPath, str]:
    """Return path -> what is wrong there, of pydantic's errors."""
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
    """Return problems in the order of the file, each once; those of its bases come last.

    The problems of a mapping without lines are in the order of its keys.
    """

    def position(problem: Problem) -> tuple[Any, ...]:
        indices = _indices(document.values, problem.where)
        return problem.file or "", problem.line or 0, problem.column or 0, indices

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
    position = document.positions.get(nearest_path, NOWHERE)

    edit = _edit_of(document, path)
    if not edit:
        return Problem(where, text, *position)
    text = f"{text} (--set {shortened(edit, 60)})"
    if not nearest_path:
        # The value is not in the file: its beginning would say nothing.
        return Problem(where, text)
    return Problem(where, text, *position)


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
            return path, f"needs a kind: {{kind: NAME, ...}}{_remedy_of_no_kind(spot, value)}"
        case schema.UNKNOWN_KIND if isinstance(value, dict) or not plain_types(spot.annotation):
            return _unknown_kind(document, spot, value)
        # Bounds that go without saying.
        case "less_than_equal" | "greater_than_equal" if _is_too_large(value):
            bounds = f"{type_in_words(spot.annotation)}, and at most {MAX_INTEGER}"
            return path, f"should be {bounds}, found {value_in_words(value)}"
    return path, _wrong_value(spot, value)


def _is_too_large(value: Any) -> bool:
    return isinstance(value, int) and abs(value) > MAX_INTEGER


def _wrong_value(spot: Spot, value: Any) -> str:
    """Return what is allowed, what was found, and what to write instead, if that is known."""
    annotation = spot.annotation
    remedy = _remedy_of_value(spot, value) or advice(value, annotation)
    found = f"found {value_in_words(value)}{remedy}"
    text = f"should be {type_in_words(annotation)}, {found}"

    # Of a long line the end is cut off, where the remedy is.
    return found if remedy and len(text) > MAX_TEXT else text


def _remedy_of_value(spot: Spot, value: Any) -> str:
    """Return what a value was meant as, by the table of synonyms or as a kind; else empty."""
    where = dotted(key for key in spot.path if isinstance(key, str))
    kinds = kinds_of(spot.annotation)
    if kinds is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return _after(_meant_as_number(str(value), kinds))
    if remedy := meant(_word_for(value), f"value:{where}", value=str(value)):
        return _after(remedy)
    item = item_of(spot.annotation)
    kinds_of_items = kinds_of(item) if item is not None else None
    if kinds_of_items is not None:
        return _remedy_of_links(where, value, kinds_of_items)
    if not isinstance(value, str):
        return ""
    if near := near_miss(value, literal_words(spot.annotation), MIN_SIMILARITY):
        return _after(near)
    return guess_of_kind(value, kinds) if kinds is not None else ""


def _after(remedy: str) -> str:
    """Return what follows what is wrong; empty if nothing is known."""
    return f"; {remedy}" if remedy else ""


def _meant_as_number(number: str, kinds: AllowedKinds) -> str:
    """Return the kind that a number in place of one was meant as, by the table."""
    return meant("number", *(f"number:{f}" for f in families_of(kinds)), value=number)


def _word_for(value: Any) -> str:
    """Return the word that the table has for a value: itself, its kind, or what it is."""
    if isinstance(value, dict):
        return str(value.get("kind", "mapping"))
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return "list" if isinstance(value, list) else "number"


def _remedy_of_links(where: str, value: Any, kinds: AllowedKinds) -> str:
    """Return what to write for a value in place of a list of links; empty if a bracket will do."""
    if isinstance(value, dict) and "kind" not in value:
        names = [name for name in value.values() if isinstance(name, str)]
        if len(value) == 1 and names:
            return _remedy_of_links(where, names[0], kinds)
        return (
            f"; a list is written as a whole, [KIND, ...], or --set '{where}[0]=KIND' changes "
            "one of its entries"
        )
    name = value.get("kind") if isinstance(value, dict) else value
    call = CALL.fullmatch(name) if isinstance(name, str) else None
    if call is None:
        return ""
    if kinds.kind_of(call[1]) is not None:
        return f"; write [{value}]" if isinstance(value, str) else ""
    name_in_words = "" if name == value else f" {value_in_words(name)}"
    return f": no {joined(families_of(kinds))}{name_in_words}{_remedy_of_kind(str(name), kinds)}"


def _missing(document: Document, spot: Spot) -> str:
    """Return what to write for a missing key; for a bare name, how to write it with the key."""
    *above, key = spot.path
    expected = type_in_words(spot.annotation)
    link = value_at(document.values, above)
    if above == ["method"] and isinstance(link, dict) and set(link) == {"kind"}:
        link = str(link["kind"])
    elif above == ["method"] and link is None:  # `--methods krum`, which no file mentions
        link = spot.section.name
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
    families = families_of(kinds)
    name = value.get("kind", kinds.default) if isinstance(value, dict) else value
    if isinstance(name, str):
        text = f"no {joined(families)} {value_in_words(name)}{_remedy_of_kind(name, kinds)}"
    else:
        found = f"found {value_in_words(name)}{_known(kinds)}"
        text = f"should be the name of {with_article(families)}, {found}"
    if isinstance(value_at(document.values, spot.path), dict):
        return (*spot.path, "kind"), text
    return spot.path, text


def _remedy_of_kind(name: str, kinds: AllowedKinds) -> str:
    """Return what to write for a name that is not among the kinds: the likeliest guess first."""
    return guess_of_kind(name, kinds) or f"{_known(kinds)}{PLUGIN}"


def guess_of_kind(name: str, kinds: AllowedKinds) -> str:
    """Return what a name that is not among the kinds was meant as, empty if that is not known."""
    return _after(next(filter(None, _guesses_of_kind(name, kinds)), ""))


def _guesses_of_kind(name: str, kinds: AllowedKinds) -> Iterator[str]:
    """Yield what a name may have been meant as, the likeliest first; some may be empty."""
    factories = {kind.name: kind.factory for kind in kinds}
    families = families_of(kinds)
    word = name.partition("(")[0].strip()
    yield meant_as_call(name, factories)
    for field in (missing_field(family, word) for family in families):
        yield refusal(field) if field else ""
    if NUMBER.fullmatch(name):
        yield _meant_as_number(name, kinds)
        return

    if row := synonym(word, *(f"kind:{family}" for family in families)):
        yield in_words(row, word)
    ending = word.rpartition(".")[2]
    if row := ending != word and synonym(ending, *(f"suffix:{family}" for family in families)):
        yield in_words(row, ending, value=word)

    known = [*factories, *(alias for alias, kind in ALIASES.items() if kind in factories)]
    yield near_miss(word, known, alike=1.0)  # another spelling
    if elsewhere := families_with(word):
        yield f"that is {belonging(elsewhere)}"
    yield meant(word, "kind")
    yield near_miss(word, known)


def _remedy_of_no_kind(spot: Spot, value: Any) -> str:
    """Return the kind that a mapping without one was meant as, or the kinds that have its keys."""
    kinds = kinds_of(spot.annotation)
    assert kinds is not None
    if not isinstance(value, dict):
        return _known(kinds)
    for key, name in value.items():
        if isinstance(name, str) and kinds.kind_of(name) is not None:
            return f"; write kind: {name} in place of {key}: {name}"

    common = set(names_of(kinds.common))
    keys = value.keys() - common
    fitting = [kind for kind in kinds if keys and keys <= set(kind.keys)]
    if not fitting:
        remedies = (meant(str(key), "key", value=str(key)) for key in keys)
        return _after(next(filter(None, remedies), "")) or _known(kinds)
    fitting.sort(key=lambda kind: len(kind.keys))
    names = ", ".join(kind.name for kind in fitting[:MAX_FITTING])
    more = f" ... ({list_command(families_of(kinds))})" if len(fitting) > MAX_FITTING else ""
    return f"; with {joined(sorted(keys))} there are {names}{more}"


def _known(kinds: AllowedKinds | None) -> str:
    """Return the names of the kinds, or the command that lists them."""
    assert kinds is not None
    return did_you_mean("", [kind.name for kind in kinds], list_command(families_of(kinds)))


def _unknown_key(document: Document, root: Any, spot: Spot) -> str:
    if text := _given_twice(document, spot.path):
        return text
    if field := missing_field(KEY, dotted(spot.path)):
        return refusal(field)
    remedy, _ = _meaning_of_key(spot.path, spot.section, root)
    return f"unknown key{remedy}"


def _given_twice(document: Document, path: KeyPath) -> str:
    """Return that a short key of `client` is given next to its optimizer; else empty."""
    client = document.values.get("client")
    if (
        path[:-1] != ("client",)
        or not isinstance(client, dict)
        or path[1] not in short_keys(client)
    ):
        return ""
    position = document.positions.get(("client", "optimizer", "<key>"))
    line = f" of {position.in_words()}" if position else ""
    short = f"is short for optimizer: {{kind: sgd, {path[1]}: ...}}"
    return f"{short}, but there is client.optimizer{line}; keep one of them"


def meant_paths(path: KeyPath, root: Any, value: Any) -> list[KeyPath]:
    """Return the paths that an unknown key may have been meant for.

    The values there are perhaps not what the author wanted, and are not to be judged.
    """
    section = _spot(root, value, path).section
    if section is None:
        return [path[:-1]]
    _, paths = _meaning_of_key(path, section, root)
    return paths


def _meaning_of_key(path: KeyPath, section: Any, root: Any) -> tuple[str, list[KeyPath]]:
    """Return what to write for an unknown key, and the paths that it may have been meant for.

    The guesses, in this order: a path as of `--set`, the field's other name for a key, a key of an
    inner section, a misspelt key, a key of another kind, a key of another section, a kind.
    """
    above = path[:-1]
    key = str(path[-1])
    known = list(names_of(section))
    if re.fullmatch(r"\w+(\[[0-9]+\]|\.\w+)+", key):
        option = f"--set {shortened(key, 60)}=VALUE"
        return f"; that is a path, for {option}; in a file indent the keys", []
    if row := _row_of_key(path, section):
        return _meaning_by_row(row, path, known)
    if key.endswith(")"):
        return "; it is the end of a call that a comma cut off: write the call in quotes", []

    of_section = "".join(f"{part}." for part in above if isinstance(part, str))
    everywhere = places().get(key, {})
    holders = {place: everywhere[place] for place in everywhere if place.startswith(of_section)}
    if not holders:
        if near := nearest(key, known):
            return f"; did you mean '{near}'?", [(*above, near)]
        relatives = _relatives(section, key)
        if relatives and section.name not in relatives:
            return f" of {section.name}; it is a key of {_some(relatives)}", []
        if not is_section(root) or not everywhere:
            guess = _after(what_is(key) or meant(key, "kind"))
            return guess or did_you_mean(key, known), []
        top = path[0]
        near_by = {place: everywhere[place] for place in everywhere if place.split(".")[0] == top}
        holders = near_by or everywhere
    paths: list[KeyPath]
    paths = [tuple(f"{place}.{key}".strip(".").split(".")) for place in holders]
    return _belongs_in(holders), paths


def _row_of_key(path: KeyPath, section: Any) -> Synonym | None:
    """Return what the table has for a key: of its kind or section first, then of any section."""
    key = str(path[-1])
    known = names_of(section)
    wheres = ["key:top"]
    if len(path) > 1:
        above = dotted(part for part in path[:-1] if isinstance(part, str))
        wheres = [f"key:{above}"]
    if isinstance(section, KindSchema):
        wheres.append(f"key:{section.family}")
    if row := synonym(key, *wheres):
        return row

    for row in parameters_like(key):
        for name in row.ours.split():
            if isinstance(section, KindSchema) and name in known and name != key:
                return row._replace(ours=name)
    return row_of(key, "key")


def _meaning_by_row(row: Synonym, path: KeyPath, known: list[str]) -> tuple[str, list[KeyPath]]:
    """Return what to write for a key by its row, and the path of that."""
    *above, key = path
    name = row.ours.rpartition(".")[2]
    sibling = dotted((*above, name))
    paths: list[KeyPath] = []
    if row.where != ABSENT and row.ours:
        is_here = row.where == PARAMETER or row.ours in known
        paths = [(*above, row.ours) if is_here else tuple(row.ours.split("."))]

    # The key that is meant may also be in this section; at the top there are only sections.
    if above and row.where != ABSENT and name in known and row.ours != sibling:
        remark = f" ({row.remark})" if "." not in row.ours and row.remark else ""
        return f"; write {sibling}{remark}", paths
    return f"; {in_words(row, str(key))}", paths


def _belongs_in(holders: dict[str, list[str]]) -> str:
    """Return that a key belongs in the first of these sections, and which kinds have it.

    Sections that have it whatever their kind come before those that have it with a kind.
    """
    of_any_kind = {place: kinds for place, kinds in holders.items() if not kinds}
    holders = of_any_kind or holders
    places = [f"in {holder}" if holder else "at the top level" for holder in list(holders)[:2]]
    kinds = dict.fromkeys(itertools.chain(*holders.values()))
    of_kinds = f", a key of {_some(list(kinds))}" if kinds else ""
    return f"; it belongs {' or '.join(places)}{of_kinds}"


def _some(names: list[str]) -> str:
    """Return the first three names, and whether there are more."""
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")


def _relatives(section: Any, key: str) -> list[str]:
    """Return the kinds of the same family as this one that have a key."""
    if not isinstance(section, KindSchema):
        return []
    return [kind.name for kind in AllowedKinds(section.family) if key in kind.keys]
