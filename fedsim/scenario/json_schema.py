"""The JSON Schema of a scenario: completion, hover texts and diagnostics in editors, while a file is typed.

Everything comes from the models of `schema`, that is from signatures and docstrings. Only the form is made here, and it
is the one that yaml-language-server explains best: a section is narrowed down by `if kind: x, then ...`, so that a wrong
key is reported as that and not as a mismatch with forty alternatives; several types at one place are one schema with
several `type`s; a kind's text stands at its name, where one looks for it.
"""

import inspect
import json
import types
import typing
from importlib.metadata import version
from typing import Annotated, Any, Optional, Union

from annotated_types import MaxLen, MinLen
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.kinds import ALIASES
from fedsim.scenario.docs import docs_of
from fedsim.scenario.keys import short_field
from fedsim.scenario.schema import Kind, Kinds
from fedsim.scenario.sections import CLIENT_SGD, METHODS, Spec

Json = dict[str, Any]
NOT_TEXT: Json = {
    "not": {"type": "string"},
    "properties": {},
}  # `properties` tells it from other nameless schemas
NO_KIND = "this is no kind: write {kind: NAME, ...} or NAME(a=1)"
NOT_BARE = "this kind has parameters that must be given: write {kind: NAME, ...}"
SCHEDULE = "A number, or a schedule of the steps that were taken."
IN_CALL = "A kind with its parameters, NAME(a=1)."
CALLED = r"^\s*({})\s*\(.*\)\s*$"
DRAFT = "http://json-schema.org/draft-07/schema#"


def editor_schema(plugins: bool = True) -> Json:
    """The JSON Schema (draft 7) of a scenario as it may be written, resolved scenarios included.

    Args:
      plugins: whether kinds count that fedsim did not bring.
    """
    text = Spec.model_fields[
        "method"
    ]  # a scenario keeps its method as text, and takes any form of it
    method: Any = Optional[Annotated[Any, METHODS]]  # noqa: UP045 (the operator knows no Annotated)
    field = Field(default=text.default, description=text.description)
    draft = Draft(plugins)
    sections = draft.section(create_model("Scenario", __base__=Spec, method=(method, field)))
    sections["properties"]["method"]["examples"] = ["fedprox(mu=0.1)"]
    head = {
        "$schema": DRAFT,
        "$comment": f"optax {version('optax')}",
        "description": "A scenario of fedsim.",
    }
    return {**head, **sections, "definitions": dict(sorted(draft.definitions.items()))}


class Draft:
    """A schema that is being written; every kind becomes one of its definitions, used wherever the kind may stand.

    Attributes:
      plugins: whether kinds count that fedsim did not bring.
      definitions: name, e.g. `rule.krum` -> schema.
    """

    def __init__(self, plugins: bool):
        self.plugins = plugins
        self.definitions: dict[str, Json] = {}

    def section(self, model: type[BaseModel]) -> Json:
        """A mapping with known keys."""
        required = [
            name for name in _required(model) if name != "kind"
        ]  # `kinds` asks for that one
        extra: Any = model.model_config.get("json_schema_extra") or {}
        return {
            "type": "object",
            "properties": {name: self.field(field) for name, field in model.model_fields.items()},
            **({"required": required} if required else {}),
            "additionalProperties": False,
            **extra,
        }

    def field(self, field: FieldInfo) -> Json:
        """One key: its text, type and bounds, and default."""
        text = {"description": field.description} if field.description else {}
        schema = self.value(field.annotation, tuple(field.metadata))
        if field.is_required():
            return {**text, **schema}
        default = to_jsonable_python(field.default)
        inner = schema.get("properties", {}).values()
        free = any(
            p.get("type") == "object" and "properties" not in p for p in inner
        )  # servers fail to insert those
        return {
            **text,
            **(_inward(schema) if isinstance(default, str) or free else schema),
            "default": default,
        }

    def value(self, annotation: Any, notes: tuple = ()) -> Json:
        """What an annotation allows, where `notes` are its metadata."""
        origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
        for note in notes:
            if isinstance(note, Kinds):
                return self.kinds(note)
            if (
                isinstance(note, BeforeValidator)
                and note.json_schema_input_type is not PydanticUndefined
            ):
                return self.value(note.json_schema_input_type)
        if origin is Annotated:
            return self.value(inside[0], (*inside[1:], *notes))
        if origin in (Union, types.UnionType):
            return _either([self.value(member) for member in inside])
        if origin is list and dict in (
            *map(typing.get_origin, typing.get_args(inside[0])),
            inside[0],
        ):
            return {"type": "array", **_of_list(notes)}
        if origin is list:
            return {"type": "array", "items": self.value(inside[0]), **_of_list(notes)}
        if (
            origin is dict
        ):  # of free keys: no more than that, since servers fail on values of any type
            return {"type": "object"}
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return self.section(annotation)
        bounded: Any = Annotated[annotation, *notes] if notes else annotation
        schema = TypeAdapter(bounded).json_schema()
        return {"type": schema["type"], "enum": [schema["const"]]} if "const" in schema else schema

    def kinds(self, place: Kinds) -> Json:
        """A name alone, or a mapping whose other keys depend on its `kind`."""
        kinds = {
            self.kind(kind): kind
            for kind in place
            if self.plugins or kind.factory.__module__.startswith("fedsim.")
        }
        names = {key: {"$ref": f"#/definitions/{key}/properties/kind"} for key in kinds}
        bare = [names[key] for key, kind in kinds.items() if _required(kind.model) == ["kind"]]
        mappings = [kind for kind in kinds.values() if _required(kind.model) != ["kind"]]
        branches = [_branch(key, kind, kind.name == place.default) for key, kind in kinds.items()]
        if mappings:
            refused = {"type": "string", "pattern": _pattern(mappings)}
            bare.append(refused if bare else {**refused, "errorMessage": NO_KIND})
            branches.append({"if": refused, "then": {"type": "object", "errorMessage": NOT_BARE}})
        called = {"type": "string", "pattern": _called(list(kinds.values()))}
        if {"optimizer", "schedule"} & set(place.families):  # many names, which depend on optax
            called = self.shared(
                "any_kind.call",
                {"description": IN_CALL, "type": "string", "pattern": CALLED.format(r"\w+")},
            )
        return {
            "type": ["string", "object"],
            "anyOf": [*bare, called, NOT_TEXT],
            "properties": {"kind": {"anyOf": list(names.values())}},
            **({} if place.default else {"required": ["kind"]}),
            "allOf": branches,
        }

    def kind(self, kind: Kind) -> str:
        """One kind as a definition -> its name; keys that all kinds of a section have are definitions of their own."""
        family, factory = kind.family, kind.factory
        parameters = inspect.signature(factory).parameters
        key = f"{family}.{kind.name}" + "".join(
            f".no_{p}" for p in parameters if p not in kind.keys
        )
        if key in self.definitions:
            return key
        schema = self.definitions[key] = {"title": f"{family} {kind.name}"}
        schema |= self.section(kind.model)
        keys = schema["properties"]
        call = _call(factory, [p for p in parameters.values() if p.name in keys])
        described = {"description": f"{docs_of(factory).summary}\n{call}", "enum": _names(kind)}
        for name in [name for name in kind.common.model_fields if name not in parameters]:
            keys[name] = self.shared(f"any_{family}.{name}", keys.pop(name))
        for name in CLIENT_SGD if family == "client" else ():
            if name not in keys:
                keys[name] = self.shared(f"any_{family}.{name}", self.field(short_field(name)))
        for name in [
            name for name in keys if family == "optimizer" and "allOf" in keys[name]
        ]:  # schedules, 58 times
            schedule = {
                "description": SCHEDULE,
                "anyOf": keys[name].pop("anyOf"),
                "allOf": keys[name]["allOf"],
            }
            keys[name] = {**keys[name], "allOf": [self.shared(f"any_{family}.{name}", schedule)]}
        schema["properties"] = {
            "kind": described,
            **{name: keys[name] for name in keys if name != "kind"},
        }
        return key

    def shared(self, key: str, schema: Json) -> Json:
        """A schema that becomes a definition -> a reference to it."""
        self.definitions[key] = schema
        return {"$ref": f"#/definitions/{key}"}


def _names(kind: Kind) -> list[str]:
    """A kind's name and its aliases."""
    return [kind.name, *sorted(alias for alias, name in ALIASES.items() if name == kind.name)]


def _pattern(kinds: list[Kind]) -> str:
    return f"^({'|'.join(name for kind in kinds for name in _names(kind))})$"


def _called(kinds: list[Kind]) -> str:
    """`krum(f=2)`, of any of these kinds."""
    return CALLED.format("|".join(name for kind in kinds for name in _names(kind)))


def _branch(key: str, kind: Kind, default: bool) -> Json:
    """What a mapping of this kind must be, besides."""
    named = {"properties": {"kind": {"type": "string", "pattern": _pattern([kind])}}}
    # where the kind may be left out, an empty section is already one of that kind (and can be completed)
    mapping = {"type": ["object", "null"]} if default else {"type": "object", "required": ["kind"]}
    return {"if": {**mapping, **named}, "then": {"$ref": f"#/definitions/{key}"}}


def _required(model: Any) -> list[str]:
    return [name for name, field in model.model_fields.items() if field.is_required()]


def _call(factory: Any, parameters: list[inspect.Parameter]) -> str:
    """`krum(f, neighbours=null)`."""
    default = lambda p: (
        "" if p.default is p.empty else "=" + json.dumps(to_jsonable_python(p.default))
    )
    return f"{factory.__name__}({', '.join(p.name + default(p) for p in parameters)})"


def _of_list(notes: tuple) -> Json:
    """What a list's metadata says of it."""
    schema: Json = {}
    for note in notes:
        if isinstance(note, MinLen):
            schema["minItems"] = note.min_length
        if isinstance(note, MaxLen):
            schema["maxItems"] = note.max_length
        elif isinstance(note, FieldInfo) and isinstance(note.json_schema_extra, dict):
            schema |= note.json_schema_extra
    return schema


def _either(alternatives: list[Json]) -> Json:
    """One schema for values of several types, so that what is wrong with a value is said of its own type."""
    merged: Json = {"type": []}
    for schema in alternatives:
        rest = {key: value for key, value in _inward(schema).items() if key != "type"}
        if "enum" in rest:
            rest = {"anyOf": [{"enum": rest["enum"]}, {"not": {"type": schema["type"]}}]}
        if merged.keys() & rest.keys():
            return {"anyOf": alternatives}
        types_ = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        merged |= {"type": merged["type"] + types_, **rest}
    if "number" in merged["type"]:
        merged["type"] = [kind for kind in merged["type"] if kind != "integer"]
    merged["type"].sort(
        key=lambda kind: kind != "null"
    )  # editors insert a default of the first type
    return merged if len(merged["type"]) > 1 else {**merged, "type": merged["type"][0]}


def _inward(schema: Json) -> Json:
    """The same, where an editor that inserts the key does not begin a mapping or a list below it."""
    below = {
        key: schema[key]
        for key in ("properties", "required", "additionalProperties", "items")
        if key in schema
    }
    above = {key: schema[key] for key in schema if key not in below}
    return {**above, "allOf": [below, *schema.get("allOf", [])]} if below else above
