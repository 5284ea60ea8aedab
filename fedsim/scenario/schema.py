"""The schema of a scenario, taken from the signatures of the factories it names.

Every `kind` of a family becomes one strict model whose fields are the factory's annotated parameters, and a section is
the union of them, told apart by `kind`. There is no second list of fields anywhere.
"""

import functools
import hashlib
import inspect
import itertools
import json
import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union

from annotated_types import Ge, Le, Lt, MaxLen, MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from fedsim.errors import ScenarioError, TooLargeError
from fedsim.kinds import ALIASES, FAMILIES, registrations
from fedsim.kinds.shipped import Shipped, is_codec
from fedsim.limits import MOST
from fedsim.scenario.diagnostics import problem_at
from fedsim.scenario.docs import docs_of
from fedsim.scenario.expected import Described, InWords
from fedsim.scenario.named_files import placeless
from fedsim.scenario.reader import Document, Path
from fedsim.scenario.sections import (
    Checkpoint,
    ClientCommon,
    Compare,
    DataCommon,
    Evaluate,
    Fleet,
    Index,
    ModelCommon,
    Numerics,
    Section,
)

Seed = Annotated[int, Ge(0), Lt(2**32)]
Among = frozenset[str] | Literal["described"] | None
DEFAULTS = {"logistic", "iid", "all", "sync", "sgd", "mean"}  # kinds that are there without being named
BY_DATA = {"natural", "linear"}  # and those that data may ask for
FEW = 24  # kinds, up to which it is quicker to make a model of them than of all
MOST_SEEDS = 10_000
NAME = "1 to 64 letters, digits, '.', '_' or '-', the first one a letter or a digit"
BROADCAST = "a list of one codec at most (fedsim list codecs)"
SEEDS = "a list of integers from 0 to 4294967295, or one integer: the first so many"


class Scenario(NamedTuple):
    """A scenario that was read and understood, as `fedsim.scenario.read` returns it; `fedsim.run` takes one.

    Attributes:
      spec: the typed sections, every default filled in.
      document: values and places as written.
    """

    spec: Any
    document: Document

    def resolved(self) -> dict[str, Any]:
        """Plain values, every default filled in; reading them again gives the same."""
        # a comparison has sections of its configurations, whose classes are others of the same names: no matter here
        plain = self.spec.model_dump(mode="json", warnings=False)
        if self.spec.compare == Compare():
            plain.pop("compare")  # as if there were no such section
        if self.spec.schedule.kind == "sync":
            plain.pop("schedule")  # likewise
        if plain["data"]["clients"] is None:
            plain["data"].pop("clients")  # the runs of a comparison have different numbers of them
        if self.spec.cohort.kind == "listed":  # its clients stand in the scenario or in a file, which then has a hash
            plain["cohort"] = {key: value for key, value in plain["cohort"].items() if value is not None}
        return _kind_first(plain)

    def hash(self) -> str:
        """SHA-256 of the resolved values, wherever the data file lies and whatever it is compared with."""
        plain = {name: value for name, value in placeless(self.resolved()).items() if name != "compare"}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    def too_large(self, path: Path, what: str) -> TooLargeError:
        """What does not fit into memory, at a path of this scenario, as an exception."""
        return TooLargeError([problem_at(self.document, path, what)], self.document.file)

    def error(self, path: Path, what: str) -> ScenarioError:
        """A problem at a path of this scenario, as an exception.

        Args:
          path: keys and list indices from the top, `("server", 0, "kind")`.
          what: what is wrong there, and what to do.

        Returns:
          The exception, with the line and the column where there is a file; raising it is left to the caller.
        """
        return ScenarioError([problem_at(self.document, path, what)], self.document.file)


def per_registry(make: Callable) -> Callable:
    """Decorator: made once, and again when something was registered since."""
    cached = functools.lru_cache(16)(lambda count, *arguments: make(*arguments))

    @functools.wraps(make)
    def current(*arguments):
        return cached(registrations(), *arguments)

    return current


@per_registry
def scenario_model(among: Among = None) -> type[BaseModel]:
    """The model of a whole scenario, from what is registered now.

    Args:
      among: the kinds that there may be; None: all. To validate by all takes most of a second when it is done first.
        `described`: all, to be looked at and not to validate by.
    """
    some = functools.partial(union, among=among)
    of_lists = {"skew": "skew", "attack": "data_attack", "augment": "augmentation"}
    lists = {"partition": some("partition"), **{key: list[some(family)] for key, family in of_lists.items()}}
    Data = some("dataset", DataCommon, "", (), **lists)
    rate = Annotated[float, Ge(0)] | _schedules(among)
    optimizer = some("optimizer", without=("lr",))
    Client = some("client", ClientCommon, "sgd", optimizer=optimizer, lr=rate)
    name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"), InWords(NAME)]
    listed = Annotated[list[Seed], MinLen(1), Field(json_schema_extra={"uniqueItems": True})]
    first = BeforeValidator(_first_seeds, json_schema_input_type=Annotated[int, Ge(1), Le(MOST_SEEDS)] | listed)
    seeds = Annotated[list[Seed], MinLen(1), first, AfterValidator(_in_order), InWords(SEEDS)]
    fields: dict[str, Any] = {
        "name": (name, ..., "Of the run directory, unless `--out` says otherwise."),
        "rounds": (Index, 100, "How often the server sends its model out."),
        "seeds": (seeds, [0], "A run for each; a number n means the first n: 0, 1, ... n-1."),
        "method": (str | None, None, "Shorthand for client, rule and server step: `name`, `name(a=1)` or a mapping."),
        "data": (Data, ..., "Where samples come from, and which client holds which."),
        "model": (some("model", ModelCommon), "logistic", "What is trained."),
        "fleet": (_fleet(among), {}, "The clients as machines, and who controls them."),
        "cohort": (some("cohort"), "all", "Who takes part in a round."),
        "schedule": (some("timetable"), "sync", "When the server steps."),
        "client": (Client, {}, "How one client trains."),
        "broadcast": (
            links_type("broadcast", among),
            [],
            "The codec by which the server sends its model out; none: as it is.",
        ),
        "wire": (links_type("wire", among), [], "What happens to a message between client and server, in this order."),
        "server": (
            links_type("server", among),
            ["mean"],
            "Stages, one rule, steps on the aggregate, optimisers, in this order.",
        ),
        "evaluate": (Evaluate, {}, "When the model is scored, and which score counts."),
        "compare": (Compare, {}, "What `fedsim compare` compares; `fedsim run` leaves it alone."),
        "numerics": (Numerics, {}, "Float type, widths and threads: what decides bits and speed."),
        "checkpoint": (Checkpoint, {}, "How often progress is committed to disk."),
        "on_nonfinite": (Literal["drop", "stop", "keep"], "drop", "What happens to an update that is not finite."),
        "on_impossible": (Literal["skip", "stop"], "skip", "What a round with too few clients for the rule does."),
    }
    kept = {"defer_build": not isinstance(among, frozenset)}
    return create_model("Scenario", __base__=Section, __cls_kwargs__=kept, **_validated(fields))


def _fleet(among: Among) -> type[BaseModel]:
    """The model of `fleet`, whose kinds depend on what is registered."""
    families = {"speed": "speed", "links": "link", "availability": "availability"}
    common = {key: Fleet.model_fields[key] for key in families}
    fields = {
        key: (union(families[key], among=among) | None, field.default, field.description)
        for key, field in common.items()
    }
    kept = {"defer_build": not isinstance(among, frozenset)}
    return create_model("Fleet", __base__=Fleet, __cls_kwargs__=kept, **_validated(fields))


_named: set[str] = DEFAULTS | BY_DATA


def named_kinds(*written: Any) -> Among:
    """The kinds that a scenario is read among: those that this and earlier ones name, or all once these are many."""
    words: set[str] = set(re.findall(r"\w+", str(written)))
    _named.update({ALIASES.get(word, word) for word in words} & set().union(*FAMILIES.values()))
    return frozenset(_named) if len(_named) <= FEW else None


@per_registry
def links_type(section: str, among: Among = None) -> Any:
    """Type of the lists `broadcast`, `wire` and `server`."""
    if section == "broadcast":
        return Annotated[list[union("codec", among=among)], MaxLen(1), InWords(BROADCAST)]
    if section == "wire":
        return list[union("attack", also=("stage", "codec"), among=among)]
    return Annotated[list[union("stage", also=("rule", "aggregate_stage", "optimizer"), among=among)], MinLen(1)]


def union(
    family: str,
    common: type[Section] = Section,
    kind: str = "",
    also: Iterable[str] = (),
    without: Iterable[str] = (),
    unless: Callable[[Callable], bool] = lambda factory: False,
    among: Among = None,
    **typed: Any,
) -> Any:
    """All kinds of a family as one type: a mapping with `kind`, or the bare name of a kind.

    A name that two families have means the kind of the first: the method `fedexp` is more than the rule of that name.

    Args:
      family: whose kinds they are.
      common: keys that all of them have.
      kind: what a mapping without `kind` means.
      also: other families.
      without: parameters of factories that are no keys.
      unless: factories that are no kinds here.
      among: as of `scenario_model`.
      typed: types of common keys.
    """
    members: dict[str, str] = {}
    for member in (family, *also):
        known = FAMILIES[member].items()
        members |= {name: member for name, factory in known if name not in members and not unless(factory)}
    some = among if isinstance(among, frozenset) else members.keys()
    make = _described if among == "described" else _kind_model
    models = [
        make(f, name, FAMILIES[f][name], common, without, typed, among) for name, f in members.items() if name in some
    ]
    # a union of one is no union: empty members fill it up, so that pydantic's errors stay alike
    joined = Union[tuple([*models, _Nothing, _Never][: max(len(models), 2)])]  # noqa: UP007 (made from a list)
    return Annotated[joined, Field(discriminator="kind"), BeforeValidator(SpelledOut(kind))]


class SpelledOut(NamedTuple):
    """Validator: a bare name, an alias or a left-out kind -> a mapping with our `kind`."""

    kind: str  # what a mapping without `kind` means; empty where it must have one

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            return value
        name = value.get("kind", self.kind)
        return {**value, "kind": ALIASES.get(name, name)} if name and isinstance(name, str) else value


class _Nothing(Section):
    kind: Literal["-"]


class _Never(Section):
    kind: Literal["--"]


def _kind_model(
    family: str, name: str, factory: Callable, common: type[Section], without, typed, among: Among
) -> type[BaseModel]:
    """The model of one kind: its factory's parameters, described by its docstring, beside the family's common ones."""
    fields = _kind_fields(family, name, factory, common, without, typed, among)
    annotations = {key: annotation for key, (annotation, _, _) in fields.items()}
    body = {
        "__module__": __name__,
        "__annotations__": {**annotations, "family": ClassVar[str]},
        "family": family,
        "model_config": ConfigDict(defer_build=not isinstance(among, frozenset)),
        **{key: field for key, (_, field) in _validated(fields).items()},
    }
    return types.new_class(name, (common,), {}, lambda namespace: namespace.update(body))


def _described(
    family: str, name: str, factory: Callable, common: type[Section], without, typed, among: Among
) -> Described:
    """`_kind_model` to be looked at: its fields alone, made when they are asked for."""
    parameters = factory.parameters if isinstance(factory, Shipped) else inspect.signature(factory).parameters
    names = [key for key in dict.fromkeys([*common.model_fields, "kind", *parameters]) if key not in without]

    def make() -> dict[str, FieldInfo]:
        fields = _validated(_kind_fields(family, name, factory, common, without, typed, among))
        infos = {key: FieldInfo.from_annotated_attribute(*typed_field) for key, typed_field in fields.items()}
        return {**common.model_fields, **infos}

    return Described(family, name, names, typed, make)


def _kind_fields(
    family: str, name: str, factory: Callable, common: type[Section], without, typed, among: Among
) -> dict:
    """Key -> (type, default, text) of one kind, but for common ones that are alike in all kinds."""
    fields: dict[str, Any] = {"kind": (Literal[name], ..., None)}
    for parameter in inspect.signature(factory, eval_str=True).parameters.values():
        if parameter.name in without:
            continue
        annotation: Any = within_int32(parameter.annotation)
        if is_codec(parameter.annotation):
            annotation = _inner_codec(among) if parameter.default is parameter.empty else _plain_codec(among) | None
        if family == "optimizer" and parameter.name == "lr":
            annotation = annotation | _schedules(among)  # of the steps that it takes
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (annotation, default, docs_of(factory).args.get(parameter.name))
    for key, annotation in typed.items():  # common keys whose types depend on what is registered
        fields[key] = (annotation, common.model_fields[key].default, common.model_fields[key].description)
    return fields


def takes_codec(factory: Callable) -> bool:
    """Whether a factory may be handed a codec by one of its parameters."""
    return any(is_codec(p.annotation) for p in inspect.signature(factory, eval_str=True).parameters.values())


def needs_codec(factory: Callable) -> bool:
    """Whether a factory must be handed one: what it makes is another codec with a memory."""
    parameters = inspect.signature(factory, eval_str=True).parameters.values()
    return any(is_codec(p.annotation) and p.default is p.empty for p in parameters)


@per_registry
def _schedules(among: Among) -> Any:
    """The schedules of a learning rate."""
    return union("schedule", among=among)


@per_registry
def _inner_codec(among: Among) -> Any:
    """The codecs that one with a memory may be made of: all others."""
    return union("codec", unless=needs_codec, among=among)


@per_registry
def _plain_codec(among: Among) -> Any:
    """The codecs that the values of a sparsifier may be sent by: those that are made of none."""
    return union("codec", unless=takes_codec, among=among)


def within_int32(annotation: Any) -> Any:
    """An annotation whose integers have bounds: without ones of their own, those of the counters on a device."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is int:
        return Annotated[int, Ge(-MOST - 1), Le(MOST)]
    if origin is Annotated and inside[0] is int:
        bounded = any(isinstance(note, Le | Lt) for note in inside[1:])
        return annotation if bounded else Annotated[int, *inside[1:], Le(MOST)]
    if origin is Annotated:
        return Annotated[within_int32(inside[0]), *inside[1:]]
    if origin is list:
        return list[within_int32(inside[0])]
    if origin in (Union, types.UnionType) and float not in inside:  # a number that may be a float has a float's range
        return Union[tuple(map(within_int32, inside))]  # noqa: UP007 (made from a list)
    return annotation


def _validated(fields: dict[str, Any]) -> dict[str, Any]:
    """(type, default, text) as pydantic wants it; defaults are checked and spelled out like anything else."""
    return {n: (t, Field(default=d, validate_default=True, description=text)) for n, (t, d, text) in fields.items()}


def _in_order(seeds: list[int]) -> list[int]:
    """Reports are sorted by seed, whatever ran first."""
    ordered = sorted(seeds)
    for one, other in itertools.pairwise(ordered):
        if one == other:
            raise ValueError(f"seed {one} stands here twice, and would be the same run; keep one")
    return ordered


def _first_seeds(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        return value
    if value > MOST_SEEDS:
        raise ValueError(f"the first {value} seeds are too many; at most {MOST_SEEDS}")
    return list(range(value))


def _kind_first(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key != "kind")  # stable: the others keep their order
        return {key: _kind_first(value[key]) for key in keys}
    return [_kind_first(item) for item in value] if isinstance(value, list) else value
