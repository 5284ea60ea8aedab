"""What a key of a scenario may be, in words: read from its annotation, for the line that says it is something else."""

import re
import types
import typing
from typing import Annotated, Any, Literal, Union

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel

from fedsim.errors import shortened
from fedsim.limits import MOST
from fedsim.scenario.schema import Kinds

NOUNS = {int: ("an integer", "integers"), float: ("a number", "numbers"), str: ("text", "texts")}
SECTIONS_OF = {  # where the kinds of a family stand in a scenario
    "dataset": "data",
    "partition": "data.partition",
    "skew": "data.skew",
    "data_attack": "data.attack",
    "augmentation": "data.augment",
    "model": "model",
    "cohort": "cohort",
    "client": "client",
    "rule": "server",
    "stage": "server (before the rule) or wire",
    "aggregate_stage": "server (behind the rule)",
    "attack": "wire",
    "codec": "wire or broadcast",
    "optimizer": "server (after the rule) or client.optimizer",
    "schedule": "client.lr",
    "timetable": "schedule",
    "speed": "fleet.speed",
    "link": "fleet.links",
    "availability": "fleet.availability",
    "method": "method",
}


class InWords(str):
    """Metadata of an annotation: what the key may be, where its type says less or too much."""


def type_in_words(annotation: Any, many: bool = False) -> str:
    """An annotation in words.

    >>> type_in_words(Annotated[int, Ge(1)] | Literal["full"])
    'an integer of at least 1 or full'
    >>> type_in_words(list[Annotated[float, Ge(0), Lt(1)]])
    'a list of numbers from 0 to below 1'
    """
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        for note in inside[1:]:
            if isinstance(note, InWords):
                return note
            if isinstance(note, Kinds):
                return _kinds(note, many)
        return type_in_words(inside[0], many) + _bounds(inside[0], inside[1:])
    if origin is Literal:
        return joined([str(value) for value in inside])
    if origin is list:
        return f"{'lists' if many else 'a list'} of {type_in_words(inside[0], True)}"
    if origin in (Union, types.UnionType):
        return joined(type_in_words(member, many) for member in inside if member is not type(None))
    if annotation is bool:
        return "true or false"
    if is_section(annotation):
        return "a mapping {" + ", ".join(f"{name}: ..." for name in annotation.model_fields) + "}"
    return NOUNS.get(annotation, ("a value", "values"))[many]


def is_section(annotation: Any) -> bool:
    """Whether an annotation is a mapping whose keys are the same for all kinds."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def families_of(kinds: Kinds) -> list[str]:
    """The families of kinds that may stand somewhere; a step on the aggregate is a stage in words."""
    return [
        family
        for family in kinds.families
        if family != "aggregate_stage" or "stage" not in kinds.families
    ]


def list_command(families: typing.Sequence[str]) -> str:
    """The command that names the kinds of these families."""
    return "fedsim list" if len(families) != 1 else f"fedsim list {families[0]}s"


def _kinds(kinds: Kinds, many: bool) -> str:
    families = families_of(kinds)
    if many:
        return f"{joined([family + 's' for family in families])} ({list_command(families)})"
    return f"{with_article(families)}, {{kind: NAME, ...}} or NAME alone ({list_command(families)})"


def with_article(families: typing.Sequence[str]) -> str:
    """`an attack or stage`."""
    names = joined(families)
    return f"{'an' if names[:1] in ('a', 'o') else 'a'} {names}"


def joined(parts: typing.Iterable[str]) -> str:
    """`a, b or c`, each once."""
    *before, last = dict.fromkeys(parts)
    return f"{', '.join(before)} or {last}" if before else last


def _bounds(kind: Any, notes: tuple) -> str:
    """` of at least 1`, ` from 0 to below 1` ..."""
    low = next((note for note in notes if isinstance(note, Ge | Gt)), None)
    high = next((note for note in notes if isinstance(note, Le | Lt) and note != Le(MOST)), None)
    if low == Ge(-MOST - 1):
        low = None
    if kind is str:
        return " (not empty)" if any(isinstance(note, MinLen) for note in notes) else ""
    top = "" if high is None else f"{high.le}" if isinstance(high, Le) else f"below {high.lt}"
    if isinstance(high, Lt) and kind is int:
        top = f"{high.lt - 1}"  # pyright: ignore[reportOperatorIssue]
    if low is None:
        return f" up to {top}" if top else ""
    if not top:
        return f" of at least {low.ge}" if isinstance(low, Ge) else f" above {low.gt}"
    upto = "" if top.startswith("below") else "up to "
    return f" from {low.ge} to {top}" if isinstance(low, Ge) else f" above {low.gt} and {upto}{top}"


def value_in_words(value: Any) -> str:
    """A value as the file has it, or what kind of thing it is."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nothing"}[value]
    if isinstance(value, list | dict):
        return f"{'a' if value else 'an empty'} {'list' if isinstance(value, list) else 'mapping'}"
    return shortened(repr(value), 40)


def advice(value: Any, annotation: Any) -> str:
    """What to write in place of a value of another type, where that is known; else nothing."""
    takes = plain_types(annotation)
    if value is None:
        return "; write a value after the colon"
    if list in takes and not isinstance(value, list):
        return _as_list(value, annotation)
    if isinstance(value, str):
        return _instead_of_text(value.strip().lower(), takes)
    if isinstance(value, float) and value.is_integer() and int in takes and float not in takes:
        return f"; write {int(value)}"
    if bool in takes and value in (0, 1):
        return f"; write {'true' if value else 'false'}"
    return (
        f"; write '{value}', in quotes" if str in takes and isinstance(value, int | float) else ""
    )


def _as_list(value: Any, annotation: Any) -> str:
    """A single entry where only a list of them may stand."""
    if typing.get_origin(annotation) is Annotated:
        inside = typing.get_args(annotation)
        return (
            "" if any(isinstance(note, InWords) for note in inside) else _as_list(value, inside[0])
        )
    if typing.get_origin(annotation) is not list:
        return ""
    if isinstance(value, dict):
        return "; write a list, [{...}]"
    return f"; write [{shortened(str(value), 30)}]" if not isinstance(value, bool) else ""


def _instead_of_text(text: str, takes: set[Any]) -> str:
    if bool in takes and text in ("yes", "on", "no", "off", "true", "false"):
        return f"; write {'true' if text in ('yes', 'on', 'true') else 'false'}"
    if not takes & {int, float}:
        return ""
    if text.lstrip("+-.") in ("inf", "infinity", "nan"):
        return "; numbers are finite"
    number = text.replace(",", ".") if text.count(",") == 1 and float in takes else text
    form = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?" if float in takes else r"[-+]?[0-9]+"
    return f"; write {number}, without quotes" if re.fullmatch(form, number) else ""


def plain_types(annotation: Any) -> set[Any]:
    """The types of scalars, and `list`, that may stand somewhere besides sections and single words."""
    return {typing.get_origin(member) or member for member in _members(annotation)} & {
        int,
        float,
        str,
        bool,
        list,
    }


def literal_words(annotation: Any) -> list[str]:
    """The single words that may stand somewhere."""
    literals = [member for member in _members(annotation) if typing.get_origin(member) is Literal]
    return [
        word for literal in literals for word in typing.get_args(literal) if isinstance(word, str)
    ]


def _members(annotation: Any) -> list[Any]:
    """What may stand somewhere, one by one and without bounds."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _members(inside[0])
    union = origin in (Union, types.UnionType)
    return [inner for member in inside for inner in _members(member)] if union else [annotation]
