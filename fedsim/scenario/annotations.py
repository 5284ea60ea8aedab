"""The sections, kinds and lists that an annotation of a scenario allows."""

import typing
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal

from pydantic.fields import FieldInfo

from fedsim.scenario.schema import AllowedKinds, KindSchema, is_section, is_union

PLAIN_TYPES = {int, float, str, bool, list}


def members_of(annotation: Any, notes: tuple = ()) -> Iterator[tuple[Any, tuple]]:
    """Yield (type, metadata) of the members of an annotation's unions, however nested.

    >>> list(members_of(Annotated[int, "a"] | None))
    [(<class 'int'>, ('a',)), (<class 'NoneType'>, ())]
    """
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated:
        yield from members_of(arguments[0], (*arguments[1:], *notes))
    elif is_union(annotation):
        for member in arguments:
            yield from members_of(member, notes)
    else:
        yield annotation, notes


def kinds_of(annotation: Any) -> AllowedKinds | None:
    """Return the kinds that an annotation allows."""
    notes = [note for _, notes in members_of(annotation) for note in notes]
    return next((note for note in notes if isinstance(note, AllowedKinds)), None)


def sections_in(annotation: Any) -> Iterator[Any]:
    """Yield the sections and kinds that an annotation allows, by itself or in a list."""
    for member, notes in members_of(annotation):
        if is_section(member) or isinstance(member, KindSchema):
            yield member
        elif typing.get_origin(member) is list:
            yield from sections_in(typing.get_args(member)[0])
        for note in notes:
            if isinstance(note, AllowedKinds):
                yield from note


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
    lists = (member for member, _ in members_of(annotation) if typing.get_origin(member) is list)
    return next((typing.get_args(member)[0] for member in lists), None)


def is_list(annotation: Any) -> bool:
    """Whether only a list is allowed."""
    return {typing.get_origin(member) for member, _ in members_of(annotation)} == {list}


def plain_types(annotation: Any) -> set[Any]:
    """Return the types that a value may have if it is no section: those of scalars, and `list`."""
    members = [member for member, _ in members_of(annotation)]
    return PLAIN_TYPES.intersection(typing.get_origin(member) or member for member in members)


def literal_words(annotation: Any) -> list[str]:
    """Return the single words that a value may be."""
    literals = [m for m, _ in members_of(annotation) if typing.get_origin(m) is Literal]
    words = [word for literal in literals for word in typing.get_args(literal)]
    return [word for word in words if isinstance(word, str)]


def names_of(section: Any) -> Collection[str]:
    """Return the names of the keys of a section or kind; this makes no model."""
    return section.keys if isinstance(section, KindSchema) else section.model_fields


def fields_of(section: Any) -> dict[str, FieldInfo]:
    """Return the keys of a section or kind."""
    model = section.model if isinstance(section, KindSchema) else section
    return model.model_fields


def annotation_of(field: FieldInfo) -> Any:
    """Return a field's annotation with its metadata."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
