"""The schema of a scenario, taken from the signatures of the factories that it names.

A section is validated by the model of its own kind: strict, its fields the factory's annotated parameters. There is no
second list of fields anywhere. A model is made when its kind is first named, so that reading a scenario takes no longer
for the hundreds of kinds that it does not name.
"""

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal, Union

from annotated_types import Ge, Le, Lt
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic_core import PydanticCustomError, core_schema

from fedsim.kinds import ALIASES, FAMILIES, registrations
from fedsim.kinds.shipped import Shipped, is_codec
from fedsim.limits import MOST
from fedsim.scenario.docs import docs_of

STRICT = ConfigDict(strict=True, allow_inf_nan=False)
NO_MAPPING = "no_mapping"  # types of errors, beside pydantic's own
NO_KIND = "no_kind"
UNKNOWN_KIND = "unknown_kind"


class Section(BaseModel):
    """A mapping with known keys of exact types. Defaults are checked and spelled out like anything else."""

    model_config = ConfigDict(STRICT, extra="forbid", validate_default=True)
    family: ClassVar[str]  # of the kind whose section it is; there only where there are kinds


def per_registry(make: Callable) -> Callable:
    """Decorator: made once, and again when something was registered since."""
    cached = functools.lru_cache(64)(lambda count, *arguments: make(*arguments))

    @functools.wraps(make)
    def current(*arguments):
        return cached(registrations(), *arguments)

    return current


class Kinds:
    """Metadata of an annotation: kinds may stand here, each a mapping with `kind`, or the bare name of one.

    A name that two families have means the kind of the first: the method `fedexp` is more than the rule of that name.

    Args:
      families: whose kinds they are.
      common: keys that all of them have.
      default: what a mapping without `kind` means; empty where it must have one.
      without: parameters of factories that are no keys here.
      unless: factories that are no kinds here.
    """

    def __init__(
        self,
        *families: str,
        common: type[Section] = Section,
        default: str = "",
        without: tuple[str, ...] = (),
        unless: Callable[[Callable], bool] = lambda factory: False,
    ):
        self.families = families
        self.common = common
        self.default = default
        self.without = without
        self.unless = unless

    def __iter__(self) -> Iterator["Kind"]:
        """All kinds that are registered now."""
        yield from _kinds_at(self).values()

    def named_by(self, value: Any) -> "Kind | None":
        """The kind that a value names, if there is such a kind here."""
        spelled = self.spelled_out(value)
        name = spelled.get("kind") if isinstance(spelled, dict) else None
        return _kinds_at(self).get(name) if isinstance(name, str) else None

    def spelled_out(self, value: Any) -> Any:
        """A bare name, an alias or a mapping without `kind` -> a mapping with our `kind`; anything else as it is."""
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            return value
        name = value.get("kind", self.default)
        if not name or not isinstance(name, str):
            return value
        return {**value, "kind": ALIASES.get(name, name)}

    def validate(self, value: Any) -> Section:
        """The section that a value is, by the model of the kind that it names."""
        if isinstance(value, Section):
            return value
        spelled = self.spelled_out(value)
        if not isinstance(spelled, dict):
            raise PydanticCustomError(NO_MAPPING, "should be a mapping or a name")
        if "kind" not in spelled:
            raise PydanticCustomError(NO_KIND, "should have a kind")
        kind = self.named_by(spelled)
        if kind is None:
            raise PydanticCustomError(UNKNOWN_KIND, "is no kind that may stand here")
        return kind.model.model_validate(spelled)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.validate)


@per_registry
def _kinds_at(place: Kinds) -> dict[str, "Kind"]:
    """Name -> kind, of all that may stand at a place."""
    found: dict[str, Kind] = {}
    for family in place.families:
        for name, factory in FAMILIES[family].items():
            if name not in found and not place.unless(factory):
                found[name] = Kind(family, name, place)
    return found


class Kind:
    """A kind at a place where it may stand.

    Attributes:
      family: of the kind.
      name: as a scenario writes it.
      common: the section whose keys all kinds have that may stand there.
    """

    def __init__(self, family: str, name: str, place: Kinds):
        self.family = family
        self.name = name
        self.common = place.common
        self._without = place.without

    @property
    def factory(self) -> Callable[..., Any]:
        return FAMILIES[self.family][self.name]

    @functools.cached_property
    def keys(self) -> list[str]:
        """All its keys, known without its model."""
        factory = self.factory
        own = (
            factory.parameters
            if isinstance(factory, Shipped)
            else inspect.signature(factory).parameters
        )
        names = dict.fromkeys([*self.common.model_fields, "kind", *own])
        return [name for name in names if name not in self._without]

    @functools.cached_property
    def model(self) -> type[Section]:
        """Its section: what the kinds of the place have in common, then the factory's own parameters."""
        fields: dict[str, Any] = {"kind": (Literal[self.name], ...)}
        texts = docs_of(self.factory).args
        for parameter in inspect.signature(self.factory, eval_str=True).parameters.values():
            if parameter.name not in self._without:
                default = ... if parameter.default is parameter.empty else parameter.default
                field = Field(default, description=texts.get(parameter.name))
                fields[parameter.name] = (self._annotation(parameter), field)
        model = create_model(
            self.name,
            __base__=self.common,
            __module__=__name__,
            __cls_kwargs__={"defer_build": True},
            **fields,
        )
        model.family = self.family
        return model

    def _annotation(self, parameter: inspect.Parameter) -> Any:
        """What a parameter takes in a scenario: codecs and schedules are sections of their own."""
        if is_codec(parameter.annotation):
            if parameter.default is parameter.empty:
                return Annotated[Any, WRAPPED_CODECS]
            return Annotated[Annotated[Any, PLAIN_CODECS] | None, ByForm()]
        annotation = checked(parameter.annotation)
        if (
            self.family == "optimizer" and parameter.name == "lr"
        ):  # a schedule counts the steps that it takes
            return Annotated[annotation | Annotated[Any, SCHEDULES], ByForm()]
        return annotation


def takes_codec(factory: Callable) -> bool:
    """Whether a factory may be handed a codec by one of its parameters."""
    return any(
        is_codec(p.annotation)
        for p in inspect.signature(factory, eval_str=True).parameters.values()
    )


def needs_codec(factory: Callable) -> bool:
    """Whether a factory must be handed one: what it makes is another codec with a memory."""
    parameters = inspect.signature(factory, eval_str=True).parameters.values()
    return any(is_codec(p.annotation) and p.default is p.empty for p in parameters)


SCHEDULES = Kinds("schedule")
WRAPPED_CODECS = Kinds(
    "codec", unless=needs_codec
)  # what one with a memory may be made of: all others
PLAIN_CODECS = Kinds("codec", unless=takes_codec)  # what the values of a sparsifier may be sent by


@dataclasses.dataclass(frozen=True)
class ByForm:
    """Metadata of a union: a mapping is validated as the section that may stand there, a list as the list, the rest as the rest.

    So an error is about the entry that is wrong, not also about what else the whole might have been.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        validate = lambda value: _adapter(member_for(source, value)).validate_python(value)
        return core_schema.no_info_plain_validator_function(validate)


def member_for(union: Any, value: Any) -> Any:
    """The members of a union that a value of its form may be meant for, as a union."""
    members = typing.get_args(union)
    forms = [_form_of(member) for member in members]
    of_its_form = [
        member
        for member, form in zip(members, forms, strict=True)
        if form and isinstance(value, form)
    ]
    plain = [member for member, form in zip(members, forms, strict=True) if form is None]
    return Union[tuple(of_its_form or plain or members)]  # noqa: UP007 (made from a list)


def _form_of(annotation: Any) -> tuple[type, ...] | None:
    """The types of values that only this member of a union may be meant by; None for a plain type."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated and isinstance(inside[1], Kinds):
        return dict, str, Section
    if origin is Annotated:
        return _form_of(inside[0])
    if origin is list:
        return (list,)
    return (
        (dict, Section)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel)
        else None
    )


@functools.lru_cache(1024)
def _adapter(annotation: Any) -> TypeAdapter:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return TypeAdapter(annotation, config=None if is_model else STRICT)


def checked(annotation: Any) -> Any:
    """An annotation of a factory as a scenario is checked by it.

    Integers have bounds: without ones of their own, those of the counters on a device. Unions go by form.
    """
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is int:
        return Annotated[int, Ge(-MOST - 1), Le(MOST)]
    if origin is Annotated and inside[0] is int:
        bounded = any(isinstance(note, Le | Lt) for note in inside[1:])
        return annotation if bounded else Annotated[int, *inside[1:], Le(MOST)]
    if origin is Annotated:
        return Annotated[checked(inside[0]), *inside[1:]]
    if origin is list:
        return list[checked(inside[0])]
    if origin in (Union, types.UnionType):
        if float not in inside:  # a number that may be a float has a float's range
            inside = tuple(map(checked, inside))
        return Annotated[Union[inside], ByForm()]  # noqa: UP007 (made from a tuple)
    return annotation
