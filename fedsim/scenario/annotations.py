"""The sections that may stand somewhere in a scenario, read from the annotation of that place."""

import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Union

from pydantic.fields import FieldInfo

from fedsim.scenario.expected import Described, is_section


def sections_in(annotation: Any) -> Iterator[Any]:
    """The sections that may stand where an annotation stands, or in a list there."""
    if is_section(annotation):
        yield annotation
    elif typing.get_origin(annotation) in (Annotated, Union, types.UnionType, list):
        inside = typing.get_args(annotation)
        for member in inside[:1] if typing.get_origin(annotation) is Annotated else inside:
            yield from sections_in(member)


def nested_in(section: Any) -> dict[str, Any]:
    """The keys of a section that may be sections themselves -> what may stand there."""
    if isinstance(section, Described):
        return section.nested
    return {name: annotation_of(field) for name, field in section.model_fields.items()}


def is_list(annotation: Any) -> bool:
    """Whether nothing but a list may stand somewhere."""
    if typing.get_origin(annotation) is Annotated:
        return is_list(typing.get_args(annotation)[0])
    return typing.get_origin(annotation) is list


def annotation_of(field: FieldInfo) -> Any:
    """A field's annotation with its bounds."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
