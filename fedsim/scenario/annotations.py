"""The sections, kinds and lists that an annotation of a scenario allows."""

import typing
from collections.abc import Collection, Iterator
from typing import Annotated, Any

from pydantic.fields import FieldInfo

from fedsim.scenario.schema import AllowedKinds, KindSchema, is_section, is_union, per_registry


def kinds_of(annotation: Any) -> AllowedKinds | None:
    """Return the kinds that an annotation allows."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated:
        inner, *notes = arguments
        return _kinds_among(notes) or kinds_of(inner)
    if is_union(annotation):
        for member in arguments:
            if kinds := kinds_of(member):
                return kinds
    return None


def _kinds_among(notes: list[Any]) -> AllowedKinds | None:
    return next((note for note in notes if isinstance(note, AllowedKinds)), None)


def sections_in(annotation: Any) -> Iterator[Any]:
    """Yield the sections and kinds that an annotation allows, by itself or in a list."""
    if is_section(annotation) or isinstance(annotation, KindSchema):
        yield annotation
        return

    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is Annotated:
        inner, *notes = arguments
        yield from _kinds_among(notes) or sections_in(inner)
    elif origin is list or is_union(annotation):
        for member in arguments:
            yield from sections_in(member)


def section_for(annotation: Any, value: Any) -> Any:
    """Return the section or kind that a value is read as; None if it is not read as one."""
    kinds = kinds_of(annotation)
    if kinds is not None:
        return kinds.kind_of(value)
    if isinstance(value, dict) and not is_list(annotation):
        return next(sections_in(annotation), None)
    return None


def item_of(annotation: Any) -> Any:
    """Return the annotation of the items of a list that is allowed; None if no list is."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is list:
        return arguments[0]
    if origin is Annotated:
        return item_of(arguments[0])
    if is_union(annotation):
        for member in arguments:
            if item := item_of(member):
                return item
    return None


def is_list(annotation: Any) -> bool:
    """Whether only a list is allowed."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return is_list(typing.get_args(annotation)[0])
    return origin is list


def names_of(section: Any) -> Collection[str]:
    """Return the names of the keys of a section or kind; this makes no model."""
    return section.keys if isinstance(section, KindSchema) else section.model_fields


def fields_of(section: Any) -> dict[str, FieldInfo]:
    """Return the keys of a section or kind."""
    model = section.model if isinstance(section, KindSchema) else section
    return model.model_fields


def nested_in(section: Any) -> dict[str, Any]:
    """Return the keys of a section that may be sections themselves -> their annotations.

    Of a kind these are only the keys that all kinds have, which needs no model of the kind.
    """
    if isinstance(section, KindSchema):
        return _nested_in_all(section.common)
    return {name: annotation_of(field) for name, field in section.model_fields.items()}


@per_registry
def _nested_in_all(common: Any) -> dict[str, Any]:
    """Return what `nested_in` does of the keys that all kinds of a section have."""
    annotations = {name: annotation_of(field) for name, field in common.model_fields.items()}
    return {name: inner for name, inner in annotations.items() if _has_kinds(inner)}


def _has_kinds(annotation: Any) -> bool:
    return any(isinstance(section, KindSchema) for section in sections_in(annotation))


def annotation_of(field: FieldInfo) -> Any:
    """Return a field's annotation with its metadata."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
