"""The schema of a scenario, derived from the signatures of the factories that it names.

There is no second list of fields: the keys of a section are the annotated parameters of the factory
behind its `kind`. The pydantic model of a kind is made when a scenario first names that kind, so
that reading a scenario does not pay for the hundreds of kinds that it does not use.
"""

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal, Union

from annotated_types import Ge, GroupedMetadata, Le, Lt, MinLen
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic_core import PydanticCustomError, core_schema

from fedsim.kinds import ALIASES, FAMILIES, registrations
from fedsim.kinds.shipped import Shipped, is_codec, is_rule, is_server_links
from fedsim.kinds.targets import is_target
from fedsim.limits import MAX_INTEGER
from fedsim.scenario.docs import docs_of

STRICT = ConfigDict(strict=True, allow_inf_nan=False)

# Error types of `AllowedKinds`, in addition to pydantic's; `diagnostics` turns them into messages.
NOT_A_MAPPING = "no_mapping"
NO_KIND = "no_kind"
UNKNOWN_KIND = "unknown_kind"


class Section(BaseModel):
    """A mapping with fixed keys of exact types; defaults are validated like given values."""

    model_config = ConfigDict(STRICT, extra="forbid", validate_default=True)

    # Set on the models that `KindSchema` makes: the family of the section's kind.
    family: ClassVar[str]


ColumnName = Annotated[str, MinLen(1)]


class TimeAndEventSection(Section):
    """The columns of times until an event."""

    time: ColumnName
    """The column of times above 0, of the event or until which there was none."""
    event: ColumnName
    """The column of a 1 where the time is that of an event, and a 0 where it is not."""


def is_section(annotation: Any) -> bool:
    """Whether an annotation is a section itself, rather than kinds that are allowed there."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def is_union(annotation: Any) -> bool:
    """Whether an annotation is `A | B`, in either spelling."""
    return typing.get_origin(annotation) in (Union, types.UnionType)


def per_registry(function: Callable) -> Callable:
    """Decorator: cache the results of a function until another kind is registered.

    The number of registrations is part of the cache's key, so that older results expire.
    """

    @functools.lru_cache(64)
    def cached(registration_count: int, *arguments):
        return function(*arguments)

    @functools.wraps(function)
    def current(*arguments):
        return cached(registrations(), *arguments)

    return current


class AllowedKinds:
    """Metadata of an annotation: the value is a kind, `{kind: NAME, ...}` or its name alone.

    If two families have a kind of the same name, the first family wins: the method `fedexp` is more
    than the rule `fedexp`.

    Args:
      families: the families whose kinds are allowed.
      common: a section with the keys that all of these kinds share.
      default: the kind of a mapping without `kind`; empty if it must have one.
      omit: parameters of the factories that are not keys here.
      exclude: a predicate; factories for which it is true are not allowed here.
    """

    def __init__(
        self,
        *families: str,
        common: type[Section] = Section,
        default: str = "",
        omit: tuple[str, ...] = (),
        exclude: Callable[[Callable], bool] = lambda factory: False,
    ):
        self.families = families
        self.common = common
        self.default = default
        self.omit = omit
        self.exclude = exclude

    def __iter__(self) -> Iterator["KindSchema"]:
        """Yield the allowed kinds among those that are registered now."""
        yield from self._by_name().values()

    @per_registry
    def _by_name(self) -> dict[str, "KindSchema"]:
        """Return name -> kind of the allowed kinds among those that are registered now."""
        kinds: dict[str, KindSchema] = {}
        for family in self.families:
            for name, factory in FAMILIES[family].items():
                if name not in kinds and not self.exclude(factory):
                    kinds[name] = KindSchema(family, name, self)
        return kinds

    def as_mapping(self, value: Any) -> Any:
        """Return a value with its kind written out: a mapping with `kind`, aliases replaced.

        A value that names no kind, by itself or by `default`, is returned as it is.
        """
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            return value

        name = value.get("kind", self.default)
        if not isinstance(name, str) or not name:
            return value
        return {**value, "kind": ALIASES.get(name, name)}

    def kind_of(self, value: Any) -> "KindSchema | None":
        """Return the kind that a value names, None if there is no such kind here."""
        mapping = self.as_mapping(value)
        name = mapping.get("kind") if isinstance(mapping, dict) else None
        return self._by_name().get(name) if isinstance(name, str) else None

    def validate(self, value: Any) -> Section:
        """Return a value as a section, validated by the model of the kind that it names."""
        # Validated before, such as a scenario's link that is passed to `fedsim.aggregate`.
        if isinstance(value, Section):
            return value

        mapping = self.as_mapping(value)
        if not isinstance(mapping, dict):
            raise PydanticCustomError(NOT_A_MAPPING, "should be a mapping or a name")
        if "kind" not in mapping:
            raise PydanticCustomError(NO_KIND, "should have a kind")
        kind = self.kind_of(mapping)
        if kind is None:
            raise PydanticCustomError(UNKNOWN_KIND, "is not a kind that is allowed here")
        return kind.model.model_validate(mapping)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Let pydantic call `validate` for a value with this metadata, in place of its type."""
        return core_schema.no_info_plain_validator_function(self.validate)


class KindSchema:
    """The keys of one kind under an annotation; another annotation may allow it with other keys.

    Attributes:
      family: the family that it is registered in.
      name: its name, the value of `kind`.
      common: the section with the keys that all kinds of the annotation share.
    """

    def __init__(self, family: str, name: str, kinds: AllowedKinds):
        self.family = family
        self.name = name
        self.common = kinds.common
        self._omit = kinds.omit

    @property
    def factory(self) -> Callable[..., Any]:
        """The registered factory, or its `Shipped` stub until the factory's module is imported."""
        return FAMILIES[self.family][self.name]

    @functools.cached_property
    def keys(self) -> list[str]:
        """The names of all its keys, without making its model."""
        factory = self.factory
        if isinstance(factory, Shipped):
            # The stub lists the names; a signature would evaluate all annotations.
            parameters = factory.parameters
        else:
            parameters = inspect.signature(factory).parameters
        own = [name for name in parameters if name not in self._omit]
        return list(dict.fromkeys([*self.common.model_fields, "kind", *own]))

    @functools.cached_property
    def model(self) -> type[Section]:
        """The pydantic model of its section: the common keys, then the factory's parameters."""
        parameters = inspect.signature(self.factory, eval_str=True).parameters
        descriptions = docs_of(self.factory).args

        fields: dict[str, Any] = {"kind": (Literal[self.name], ...)}
        for name, parameter in parameters.items():
            if name in self._omit:
                continue
            default = ... if parameter.default is parameter.empty else parameter.default
            field = Field(default, description=descriptions.get(name))
            fields[name] = (self._annotation(parameter), field)

        model = create_model(
            self.name,
            __base__=self.common,
            # The validator is built when it is first used: help and editors need the fields alone.
            __cls_kwargs__={"defer_build": True},
            **fields,
        )
        model.family = self.family
        return model

    def _annotation(self, parameter: inspect.Parameter) -> Any:
        """Return what a parameter may be in a scenario; other kinds become sections."""
        if is_rule(parameter.annotation):
            return Annotated[Annotated[Any, PLAIN_RULES] | None, ByForm()]
        if is_server_links(parameter.annotation):
            return SERVER_CHAIN
        if is_target(parameter.annotation):
            labels = Annotated[list[ColumnName], MinLen(1)]
            return Annotated[ColumnName | TimeAndEventSection | labels, ByForm()]
        if is_codec(parameter.annotation):
            # `error_feedback(codec)` requires one; `top_k(values=None)` does not.
            required = parameter.default is parameter.empty
            if required:
                return Annotated[Any, WRAPPED_CODECS]
            if self.family != "codec":
                return Annotated[Annotated[Any, WRAPPED_CODECS] | None, ByForm()]
            return Annotated[Annotated[Any, PLAIN_CODECS] | None, ByForm()]

        annotation = scenario_annotation(parameter.annotation)
        # The learning rate of an optimizer may be a schedule, which counts the optimizer's steps.
        if self.family == "optimizer" and parameter.name == "lr":
            return Annotated[annotation | Annotated[Any, LR_SCHEDULES], ByForm()]
        return annotation


def _parameters_of(factory: Callable) -> Iterable[inspect.Parameter]:
    return inspect.signature(factory, eval_str=True).parameters.values()


def takes_codec(factory: Callable) -> bool:
    """Whether a parameter of a factory may be a codec."""
    return any(is_codec(p.annotation) for p in _parameters_of(factory))


def needs_codec(factory: Callable) -> bool:
    """Whether a parameter of a factory must be a codec, as in those that add a memory to it."""
    return any(is_codec(p.annotation) and p.default is p.empty for p in _parameters_of(factory))


def takes_rule(factory: Callable) -> bool:
    """Whether a parameter of a factory may be a rule."""
    return any(is_rule(p.annotation) for p in _parameters_of(factory))


# Learning rates over time. The key `schedule` of a scenario is something else: a `timetable`.
LR_SCHEDULES = AllowedKinds("schedule")

# What a codec with a memory may wrap: any codec without one.
WRAPPED_CODECS = AllowedKinds("codec", exclude=needs_codec)

# What the values of a sparsifier may be encoded by: a codec that is not made of another one.
PLAIN_CODECS = AllowedKinds("codec", exclude=takes_codec)

# What a rule may be made of: rules that are not made of others.
PLAIN_RULES = AllowedKinds("rule", exclude=takes_rule)

# What nodes of a graph may apply to what they hear.
PLAIN_LINKS = AllowedKinds("stage", "rule", exclude=takes_rule)

# What the servers of a kind that has several may do.
SERVER_LINKS = AllowedKinds("stage", "rule", "aggregate_stage", "optimizer", exclude=takes_rule)

# Of these, a JSON Schema has one definition each: they stand within many kinds.
WITHIN_KINDS = {
    "schedule": LR_SCHEDULES,
    "codec": WRAPPED_CODECS,
    "rule": PLAIN_RULES,
    "stage or rule": PLAIN_LINKS,
    "link of a server": SERVER_LINKS,
}


@dataclasses.dataclass(frozen=True)
class ByForm:
    """Metadata of a union: validate a value only by the members that fit its form.

    A mapping is validated as a section, a list as a list, anything else as one of the plain types.
    An error then concerns the entry that is wrong, and not every member of the union.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Let pydantic validate the union `source` member by member, as this class says."""

        def validate(value: Any) -> Any:
            return adapter_of(members_matching(source, value)).validate_python(value)

        return core_schema.no_info_plain_validator_function(
            validate, json_schema_input_schema=handler.generate_schema(source)
        )


def links_or_none(kinds: AllowedKinds) -> Any:
    """Return the annotation of a key that is one link, a list of links, or nothing."""
    link = Annotated[Any, kinds]
    return Annotated[link | Annotated[list[link], MinLen(1)] | None, ByForm()]


SERVER_CHAIN = links_or_none(SERVER_LINKS)


def members_matching(union: Any, value: Any) -> Any:
    """Narrow a union to the members that a value can be meant as, judged by its form.

    A mapping matches sections, a list matches lists; any other value matches the plain members.
    """
    members = typing.get_args(union)
    of_its_form = [member for member in members if isinstance(value, _container_types(member))]
    plain = [member for member in members if not _container_types(member)]
    candidates = of_its_form or plain or members
    return Union[tuple(candidates)]  # noqa: UP007 (made from a list)


def _container_types(annotation: Any) -> tuple[type, ...]:
    """Return the types of values that identify this member of a union; none for a plain type.

    A `Section` is a value that was validated before.
    """
    if is_section(annotation):
        return (dict, Section)
    origin = typing.get_origin(annotation)
    if origin is list:
        return (list,)
    if origin is Annotated:
        inner, note, *_ = typing.get_args(annotation)
        return (dict, str, Section) if isinstance(note, AllowedKinds) else _container_types(inner)
    return ()


@functools.lru_cache(1024)
def adapter_of(annotation: Any) -> TypeAdapter:
    """Return the strict validator of an annotation; cached, because making one is slow."""
    # A section has its own configuration, and pydantic allows no second one.
    return TypeAdapter(annotation, config=None if is_section(annotation) else STRICT)


def scenario_annotation(annotation: Any) -> Any:
    """Return the annotation by which a scenario validates a parameter of a factory.

    Integers without bounds are limited to 32 bits, like the counters on a device; integers with
    bounds but no upper one are at most MAX_INTEGER. Unions are validated by form.
    """
    if annotation is int:
        return Annotated[int, Ge(-MAX_INTEGER - 1), Le(MAX_INTEGER)]

    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is list:
        return list[scenario_annotation(arguments[0])]
    if origin is Annotated:
        inner, *notes = arguments
        if inner is not int:
            return Annotated[scenario_annotation(inner), *notes]
        return annotation if _has_upper_bound(notes) else Annotated[int, *notes, Le(MAX_INTEGER)]
    if is_union(annotation):
        # The integers of `int | float` have the range of a float.
        unlimited = (int, float) if float in arguments else ()
        members = [
            member if member in unlimited else scenario_annotation(member) for member in arguments
        ]
        return Annotated[Union[tuple(members)], ByForm()]  # noqa: UP007 (made from a list)
    return annotation


def _has_upper_bound(notes: list[Any]) -> bool:
    """Whether the metadata of an integer bounds it from above; `Interval` groups bounds."""
    for note in notes:
        bounds = list(note) if isinstance(note, GroupedMetadata) else [note]
        if any(isinstance(bound, Le | Lt) for bound in bounds):
            return True
    return False
