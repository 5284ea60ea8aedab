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
from typing import Annotated, Any, Union

from annotated_types import MaxLen, MinLen
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.scenario.docs import docs_of
from fedsim.scenario.keys import short_field
from fedsim.scenario.schema import SpelledOut, scenario_model, union
from fedsim.scenario.sections import CLIENT_SGD

Json = dict[str, Any]
NOT_TEXT: Json = {"not": {"type": "string"}, "properties": {}}  # `properties` tells it from other nameless schemas
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
    model = scenario_model()
    text = model.model_fields["method"]  # a scenario keeps its method as text, and takes any form of it
    method: Any = union("method", also=("rule",)) | None
    field = Field(default=text.default, description=text.description)
    draft = Draft(plugins)
    sections = draft.section(create_model("Scenario", __base__=model, method=(method, field)))
    sections["properties"]["method"]["examples"] = ["fedprox(mu=0.1)"]
    head = {"$schema": DRAFT, "$comment": f"optax {version('optax')}", "description": "A scenario of fedsim."}
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
        required = [name for name in _required(model) if name != "kind"]  # `kinds` asks for that one
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
        free = any(p.get("type") == "object" and "properties" not in p for p in inner)  # servers fail to insert those
        return {**text, **(_inward(schema) if isinstance(default, str) or free else schema), "default": default}

    def value(self, annotation: Any, notes: tuple = ()) -> Json:
        """What an annotation allows, where `notes` are its metadata."""
        origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
        for note in notes:
            if isinstance(note, BeforeValidator):
                if isinstance(note.func, SpelledOut):
                    return self.kinds([m for m in inside if hasattr(m, "family")], note.func.kind)
                if note.json_schema_input_type is not PydanticUndefined:
                    return self.value(note.json_schema_input_type)
        if origin is Annotated:
            return self.value(inside[0], (*inside[1:], *notes))
        if origin in (Union, types.UnionType):
            return _either([self.value(member) for member in inside])
        if origin is list and dict in (*map(typing.get_origin, typing.get_args(inside[0])), inside[0]):
            return {"type": "array", **_of_list(notes)}
        if origin is list:
            return {"type": "array", "items": self.value(inside[0]), **_of_list(notes)}
        if origin is dict:  # of free keys: no more than that, since servers fail on values of any type
            return {"type": "object"}
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return self.section(annotation)
        bounded: Any = Annotated[annotation, *notes] if notes else annotation
        schema = TypeAdapter(bounded).json_schema()
        return {"type": schema["type"], "enum": [schema["const"]]} if "const" in schema else schema

    def kinds(self, models: list[Any], default: str) -> Json:
        """A name alone, or a mapping whose other keys depend on its `kind`."""
        kinds = {self.kind(m): m for m in models if self.plugins or _factory(m).__module__.startswith("fedsim.")}
        names = {key: {"$ref": f"#/definitions/{key}/properties/kind"} for key in kinds}
        bare = [names[key] for key, model in kinds.items() if _required(model) == ["kind"]]
        mappings = [model for model in kinds.values() if _required(model) != ["kind"]]
        branches = [_branch(key, model, model.__name__ == default) for key, model in kinds.items()]
        if mappings:
            refused = {"type": "string", "pattern": _pattern(mappings)}
            bare.append(refused if bare else {**refused, "errorMessage": NO_KIND})
            branches.append({"if": refused, "then": {"type": "object", "errorMessage": NOT_BARE}})
        called = {"type": "string", "pattern": _called(list(kinds.values()))}
        if {"optimizer", "schedule"} & {model.family for model in models}:  # many names, which depend on optax
            called = self.shared(
                "any_kind.call", {"description": IN_CALL, "type": "string", "pattern": CALLED.format(r"\w+")}
            )
        return {
            "type": ["string", "object"],
            "anyOf": [*bare, called, NOT_TEXT],
            "properties": {"kind": {"anyOf": list(names.values())}},
            **({} if default else {"required": ["kind"]}),
            "allOf": branches,
        }

    def kind(self, model: Any) -> str:
        """One kind as a definition -> its name; keys that all kinds of a section have are definitions of their own."""
        factory, family = _factory(model), model.family
        parameters = inspect.signature(factory).parameters
        key = f"{family}.{factory.__name__}" + "".join(f".no_{p}" for p in parameters if p not in model.model_fields)
        if key in self.definitions:
            return key
        schema = self.definitions[key] = {"title": f"{family} {factory.__name__}"}
        schema |= self.section(model)
        keys = schema["properties"]
        call = _call(factory, [p for p in parameters.values() if p.name in keys])
        kind = {"description": f"{docs_of(factory).summary}\n{call}", "enum": _names(model)}
        for name in [name for name in model.__base__.model_fields if name not in parameters]:
            keys[name] = self.shared(f"any_{family}.{name}", keys.pop(name))
        for name in CLIENT_SGD if family == "client" else ():
            if name not in keys:
                keys[name] = self.shared(f"any_{family}.{name}", self.field(short_field(name)))
        for name in [name for name in keys if family == "optimizer" and "allOf" in keys[name]]:  # schedules, 58 times
            schedule = {"description": SCHEDULE, "anyOf": keys[name].pop("anyOf"), "allOf": keys[name]["allOf"]}
            keys[name] = {**keys[name], "allOf": [self.shared(f"any_{family}.{name}", schedule)]}
        schema["properties"] = {"kind": kind, **{name: keys[name] for name in keys if name != "kind"}}
        return key

    def shared(self, key: str, schema: Json) -> Json:
        """A schema that becomes a definition -> a reference to it."""
        self.definitions[key] = schema
        return {"$ref": f"#/definitions/{key}"}


def _factory(model: Any) -> Any:
    return FAMILIES[model.family][model.__name__]


def _names(model: Any) -> list[str]:
    """A kind's name and its aliases."""
    return [model.__name__, *sorted(alias for alias, name in ALIASES.items() if name == model.__name__)]


def _pattern(models: list[Any]) -> str:
    return f"^({'|'.join(name for model in models for name in _names(model))})$"


def _called(models: list[Any]) -> str:
    """`krum(f=2)`, of any of these kinds."""
    return CALLED.format("|".join(name for model in models for name in _names(model)))


def _branch(key: str, model: Any, default: bool) -> Json:
    """What a mapping of this kind must be, besides."""
    kind = {"properties": {"kind": {"type": "string", "pattern": _pattern([model])}}}
    # where the kind may be left out, an empty section is already one of that kind (and can be completed)
    mapping = {"type": ["object", "null"]} if default else {"type": "object", "required": ["kind"]}
    return {"if": {**mapping, **kind}, "then": {"$ref": f"#/definitions/{key}"}}


def _required(model: Any) -> list[str]:
    return [name for name, field in model.model_fields.items() if field.is_required()]


def _call(factory: Any, parameters: list[inspect.Parameter]) -> str:
    """`krum(f, neighbours=null)`."""
    default = lambda p: "" if p.default is p.empty else "=" + json.dumps(to_jsonable_python(p.default))
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
    merged["type"].sort(key=lambda kind: kind != "null")  # editors insert a default of the first type
    return merged if len(merged["type"]) > 1 else {**merged, "type": merged["type"][0]}


def _inward(schema: Json) -> Json:
    """The same, where an editor that inserts the key does not begin a mapping or a list below it."""
    below = {key: schema[key] for key in ("properties", "required", "additionalProperties", "items") if key in schema}
    above = {key: schema[key] for key in schema if key not in below}
    return {**above, "allOf": [below, *schema.get("allOf", [])]} if below else above
