"""What a key of a scenario may be, in words: read from its annotation, for messages and help."""

import contextlib
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedsim.errors import shortened
from fedsim.limits import MAX_INTEGER
from fedsim.scenario.annotations import is_list, members_of, plain_types
from fedsim.scenario.schema import AllowedKinds, is_section, is_union

# Type -> singular with article, plural.
NOUNS = {int: ("an integer", "integers"), float: ("a number", "numbers"), str: ("text", "texts")}

# Family -> where its kinds belong in a scenario.
SECTIONS_OF = {
    "dataset": "data",
    "partition": "data.partition",
    "skew": "data.skew",
    "data_attack": "data.attack",
    "augmentation": "data.augment",
    "model": "model",
    "loss": "model.loss",
    "adapter": "model.adapter",
    "cohort": "cohort",
    "client": "client",
    "rule": "server",
    "stage": "server (before the rule) or wire",
    "aggregate_stage": "server (after the rule)",
    "attack": "wire",
    "codec": "wire or broadcast",
    "optimizer": "server (after the rule) or client.optimizer",
    "schedule": "client.lr",
    "timetable": "schedule",
    "speed": "fleet.speed",
    "link": "fleet.links",
    "availability": "fleet.availability",
    "mechanism": "privacy.mechanism",
    "metric": "evaluate.metrics",
    "topology": "topology",
    "method": "method",
}

# How values are read that are only nearly of a type: `"2"`, `yes`, `2.0`.
LENIENT = ConfigDict(allow_inf_nan=False)


class InWords(str):
    """Metadata of an annotation: what the key may be, if its type says too little or too much."""


def type_in_words(annotation: Any, plural: bool = False) -> str:
    """Return an annotation in words.

    >>> type_in_words(Annotated[int, Ge(1)] | Literal["full"])
    'an integer of at least 1 or full'
    >>> type_in_words(list[Annotated[float, Ge(0), Lt(1)]])
    'a list of numbers from 0 to below 1'
    """
    if annotation is bool:
        return "true or false"
    if is_section(annotation):
        keys = ", ".join(f"{name}: ..." for name in annotation.model_fields)
        return f"a mapping {{{keys}}}"

    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is Annotated:
        inner, *notes = arguments
        for note in notes:
            if isinstance(note, InWords):
                return note
            if isinstance(note, AllowedKinds):
                return _kinds_in_words(note, plural)
        return type_in_words(inner, plural) + _bounds(inner, notes)
    if origin is Literal:
        return joined(str(value) for value in arguments)
    if origin is list:
        items = type_in_words(arguments[0], plural=True)
        return f"lists of {items}" if plural else f"a list of {items}"
    if is_union(annotation):
        members = [member for member in arguments if member is not types.NoneType]
        return joined(type_in_words(member, plural) for member in members)

    singular_noun, plural_noun = NOUNS.get(annotation, ("a value", "values"))
    return plural_noun if plural else singular_noun


def _kinds_in_words(kinds: AllowedKinds, plural: bool) -> str:
    families = families_of(kinds)
    command = list_command(families)
    if plural:
        return f"{joined(map(plural_of, families))} ({command})"
    return f"{with_article(families)}, {{kind: NAME, ...}} or NAME alone ({command})"


def _bounds(annotation: Any, notes: list[Any]) -> str:
    """Return bounds in words after a space: ` of at least 1`, ` from 0 to below 1`."""
    if annotation is str:
        return " (not empty)" if any(isinstance(note, MinLen) for note in notes) else ""

    # The bounds of a 32-bit integer go without saying.
    lowers = [note for note in notes if isinstance(note, Ge | Gt) and note != Ge(-MAX_INTEGER - 1)]
    uppers = [note for note in notes if isinstance(note, Le | Lt) and note != Le(MAX_INTEGER)]
    lower = lowers[0] if lowers else None
    upper = _upper(annotation, uppers[0]) if uppers else ""

    if lower is None:
        return f" up to {upper}" if upper else ""
    if isinstance(lower, Ge):
        return f" from {lower.ge} to {upper}" if upper else f" of at least {lower.ge}"
    if not upper:
        return f" above {lower.gt}"
    to_upper = upper if upper.startswith("below") else f"up to {upper}"
    return f" above {lower.gt} and {to_upper}"


def _upper(annotation: Any, bound: Le | Lt) -> str:
    """Return an upper bound in words: `1`, `below 1`."""
    if isinstance(bound, Le):
        return f"{bound.le}"
    if annotation is int:
        return f"{bound.lt - 1}"  # pyright: ignore[reportOperatorIssue]
    return f"below {bound.lt}"


def families_of(kinds: AllowedKinds) -> list[str]:
    """Return the families whose kinds are allowed; a step on the aggregate counts as a stage."""
    families = list(kinds.families)
    if "stage" in families and "aggregate_stage" in families:
        families.remove("aggregate_stage")
    return families


def list_command(families: Sequence[str]) -> str:
    """Return the command that lists the kinds of these families."""
    return f"fedsim list {plural_of(families[0])}" if len(families) == 1 else "fedsim list"


def plural_of(family: str) -> str:
    """Return the name of a family's kinds.

    >>> plural_of("rule"), plural_of("availability"), plural_of("loss")
    ('rules', 'availabilities', 'losses')
    """
    if family.endswith("s"):
        return f"{family}es"
    return f"{family[:-1]}ies" if family.endswith("y") else f"{family}s"


def with_article(families: Sequence[str]) -> str:
    """Return `an attack or stage`."""
    names = joined(families)
    article = "an" if names.startswith(("a", "o")) else "a"
    return f"{article} {names}"


def joined(words: Iterable[str]) -> str:
    """Return `a, b or c`, each word once."""
    *before, last = dict.fromkeys(words)
    return f"{', '.join(before)} or {last}" if before else last


def value_in_words(value: Any) -> str:
    """Return a value as the file has it, or what kind of thing it is."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        noun = "list" if isinstance(value, list) else "mapping"
        return f"a {noun}" if value else f"an empty {noun}"
    return shortened(repr(value), 40)


def advice(value: Any, annotation: Any) -> str:
    """Return what to write in place of a value of the wrong type, empty if that is not known."""
    allowed = plain_types(annotation)
    if value is None:
        return "; write a value after the colon"
    if list in allowed and not isinstance(value, list):
        return _as_list(value, annotation)
    if str in allowed and isinstance(value, int | float):
        return f"; write '{value}', in quotes"
    is_beyond_bounds = isinstance(value, int | float) and allowed & {type(value), float}
    if is_beyond_bounds or isinstance(value, bool):
        return ""
    if allowed & {int, float} and str(value).lower().lstrip("+-.") in ("inf", "infinity", "nan"):
        return "; numbers are finite"
    if isinstance(value, str) and float in allowed and value.count(",") == 1:
        value = value.replace(",", ".")

    quotes = ", without quotes" if isinstance(value, str) else ""
    for plain_type in (bool, int, float):
        if plain_type in allowed:
            with contextlib.suppress(ValidationError):
                read = TypeAdapter(plain_type, config=LENIENT).validate_python(value)
                return f"; write {value_in_words(read)}{'' if plain_type is bool else quotes}"
    return ""


def _as_list(value: Any, annotation: Any) -> str:
    """Return how to write a single entry as the list that is wanted."""
    notes = [note for _, notes in members_of(annotation) for note in notes]
    # The words of such a note say what to write.
    in_words = any(isinstance(note, InWords) for note in notes)
    if in_words or isinstance(value, bool) or not is_list(annotation):
        return ""
    if isinstance(value, dict):
        return "; write a list, [{...}]"
    return f"; write [{shortened(str(value), 30)}]"
