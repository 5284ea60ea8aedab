"""What may stand somewhere in a scenario, read from the annotation of that place: sections, and kinds of them."""

import types
import typing
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Union

from pydantic.fields import FieldInfo

from fedsim.scenario.expected import is_section
from fedsim.scenario.schema import Kind, Kinds


def kinds_of(annotation: Any) -> Kinds | None:
    """The kinds of which one may stand where an annotation stands."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        own = next((note for note in inside[1:] if isinstance(note, Kinds)), None)
        return own or kinds_of(inside[0])
    if origin in (Union, types.UnionType):
        return next(filter(None, map(kinds_of, inside)), None)
    return None


def sections_in(annotation: Any) -> Iterator[Any]:
    """The sections and kinds that may stand where an annotation stands, or in a list there."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if is_section(annotation) or isinstance(annotation, Kind):
        yield annotation
    elif origin is Annotated:
        kinds = next((note for note in inside[1:] if isinstance(note, Kinds)), None)
        yield from kinds or sections_in(inside[0])
    elif origin in (Union, types.UnionType, list):
        for member in inside:
            yield from sections_in(member)


def section_for(annotation: Any, value: Any) -> Any:
    """The section, or kind, that a mapping or name at a place is read as; None where it is read as none."""
    kinds = kinds_of(annotation)
    if kinds is not None:
        return kinds.named_by(value)
    return (
        next(sections_in(annotation), None)
        if isinstance(value, dict) and not is_list(annotation)
        else None
    )


def item_of(annotation: Any) -> Any:
    """What the items of a list may be that may stand where an annotation stands; None where no list may."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return item_of(inside[0])
    if origin in (Union, types.UnionType):
        return next(filter(None, map(item_of, inside)), None)
    return inside[0] if origin is list else None


def names_of(section: Any) -> Collection[str]:
    """The keys of a section or kind."""
    return section.keys if isinstance(section, Kind) else section.model_fields


def fields_of(section: Any) -> dict[str, FieldInfo]:
    """The keys of a section or kind, each with what may stand there."""
    return (section.model if isinstance(section, Kind) else section).model_fields


def nested_in(section: Any) -> dict[str, Any]:
    """The keys of a section that may be sections themselves -> what may stand there; of a kind those that all kinds have."""
    if not isinstance(section, Kind):
        return {name: annotation_of(field) for name, field in section.model_fields.items()}
    annotations = {
        name: annotation_of(field) for name, field in section.common.model_fields.items()
    }
    return {name: annotation for name, annotation in annotations.items() if _has_kinds(annotation)}


def _has_kinds(annotation: Any) -> bool:
    return any(isinstance(section, Kind) for section in sections_in(annotation))


def is_list(annotation: Any) -> bool:
    """Whether nothing but a list may stand somewhere."""
    if typing.get_origin(annotation) is Annotated:
        return is_list(typing.get_args(annotation)[0])
    return typing.get_origin(annotation) is list


def annotation_of(field: FieldInfo) -> Any:
    """A field's annotation with its bounds."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
