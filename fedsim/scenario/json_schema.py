"""The JSON Schema of a scenario: completion, hover texts and diagnostics in editors.

All of its content comes from the models of `schema`, that is from signatures and docstrings. Its
form is the one that yaml-language-server explains best:

- A section is narrowed down by `if kind: x, then ...`, so that a wrong key is reported as such, and
  not as a mismatch with forty alternatives.
- Several types of one value are one schema with several `type`s.
- The text of a kind is at its name, where one looks for it.
"""

import inspect
import json
import typing
from importlib.metadata import version
from typing import Annotated, Any, Optional

from annotated_types import MaxLen, MinLen
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.scenario.catalogue import aliases_of
from fedsim.scenario.docs import docs_of
from fedsim.scenario.keys import short_field
from fedsim.scenario.schema import (
    WITHIN_KINDS,
    AllowedKinds,
    KindSchema,
    is_section,
    is_union,
)
from fedsim.scenario.sections import CLIENT_SGD, METHODS, Spec

Json = dict[str, Any]

DRAFT = "http://json-schema.org/draft-07/schema#"
NO_KIND = "this is not a kind: write {kind: NAME, ...} or NAME(a=1)"
NOT_BARE = "this kind has parameters that must be given: write {kind: NAME, ...}"
SCHEDULE = "A number, or a schedule of the steps that were taken."
IN_CALL = "A kind with its parameters, NAME(a=1)."
CALLED = r"^\s*({})\s*\(.*\)\s*$"

# `properties` tells it from other schemas without a name.
NOT_TEXT: Json = {"not": {"type": "string"}, "properties": {}}


def editor_schema(plugins: bool = True) -> Json:
    """Return the JSON Schema (draft 7) of scenarios, as written or resolved.

    Args:
      plugins: whether to include kinds that are not fedsim's.
    """
    # A scenario holds its method as text, and takes it in any form.
    text = Spec.model_fields["method"]
    method: Any = Optional[Annotated[Any, METHODS]]  # noqa: UP045 (`|` does not take Annotated)
    field = Field(default=text.default, description=text.description)
    model = create_model("Scenario", __base__=Spec, method=(method, field))

    draft = Draft(plugins)
    scenario = draft.section(model)
    scenario["properties"]["method"]["examples"] = ["fedprox(mu=0.1)"]
    return {
        "$schema": DRAFT,
        "$comment": f"optax {version('optax')}",
        "description": "A fedsim scenario.",
        **_unless_extended(scenario),
        "definitions": dict(sorted(draft.definitions.items())),
    }


def _unless_extended(scenario: Json) -> Json:
    """Return the schema of a scenario in which `extends` makes up for keys that are missing."""
    complete: Json = {"required": scenario.pop("required"), "properties": {}}
    for name, schema in scenario["properties"].items():
        for part in (schema, *schema.get("allOf", [])):
            if part.get("required") == ["kind"]:
                complete["properties"][name] = {"required": part.pop("required")}
    return {**scenario, "if": {"required": ["extends"]}, "else": complete}


class Draft:
    """A schema under construction; every kind becomes a definition, used wherever it is allowed.

    Attributes:
      plugins: whether to include kinds that are not fedsim's.
      definitions: name, such as `rule.krum` -> schema.
    """

    def __init__(self, plugins: bool):
        self.plugins = plugins
        self.definitions: dict[str, Json] = {}

    def section(self, model: type[BaseModel]) -> Json:
        """Return the schema of a mapping with fixed keys."""
        schema: Json = {
            "type": "object",
            "properties": {name: self.field(field) for name, field in model.model_fields.items()},
        }
        required = [name for name in _required(model) if name != "kind"]  # `kinds` requires that
        if required:
            schema["required"] = required
        extra: Any = model.model_config.get("json_schema_extra") or {}
        return {**schema, "additionalProperties": False, **extra}

    def field(self, field: FieldInfo) -> Json:
        """Return the schema of a key: its text, type, bounds and default."""
        schema = self.value(field.annotation, tuple(field.metadata))
        if not field.is_required():
            default = to_jsonable_python(field.default)
            if isinstance(default, str) or _has_free_mapping(schema):
                schema = _inward(schema)
            schema = {**schema, "default": default}
        if field.description:
            schema = {"description": field.description, **schema}
        return schema

    def value(self, annotation: Any, notes: tuple = ()) -> Json:
        """Return the schema of `Annotated[annotation, *notes]`."""
        for note in notes:
            if isinstance(note, AllowedKinds):
                return self.kinds(note)
            if isinstance(note, BeforeValidator):
                if note.json_schema_input_type is not PydanticUndefined:
                    return self.value(note.json_schema_input_type)

        origin = typing.get_origin(annotation)
        arguments = typing.get_args(annotation)
        if origin is Annotated:
            return self.value(arguments[0], (*arguments[1:], *notes))
        if is_section(annotation):
            return self.section(annotation)
        if is_union(annotation):
            return _either([self.value(member) for member in arguments])
        if origin is list:
            schema: Json = {"type": "array"}
            if not _is_free_mapping(arguments[0]):
                schema["items"] = self.value(arguments[0])
            return {**schema, **_bounds_of_list(notes)}
        if origin is dict:
            return {"type": "object"}  # language servers fail on more of a mapping with free keys

        bounded: Any = Annotated[annotation, *notes] if notes else annotation
        schema = TypeAdapter(bounded).json_schema()
        if "const" in schema:
            return {"type": schema["type"], "enum": [schema["const"]]}
        return schema

    def kinds(self, kinds: AllowedKinds) -> Json:
        """Return the schema of a name alone, or a mapping whose other keys depend on its `kind`."""
        by_key: dict[str, KindSchema] = {}
        for kind in kinds:
            if self.plugins or kind.factory.__module__.startswith("fedsim."):
                by_key[self.kind(kind)] = kind

        names = {key: {"$ref": f"#/definitions/{key}/properties/kind"} for key in by_key}
        branches = [_branch(key, kind, kind.name == kinds.default) for key, kind in by_key.items()]
        bare = [names[key] for key, kind in by_key.items() if not _needs_parameters(kind)]

        # The bare name of a kind with required parameters passes as text; a branch refuses it with
        # a message that says why.
        needy = [kind for kind in by_key.values() if _needs_parameters(kind)]
        if needy:
            refused: Json = {"type": "string", "pattern": _pattern(needy)}
            if bare:
                bare.append(refused)
            else:
                bare.append({**refused, "errorMessage": NO_KIND})
            branches.append({"if": refused, "then": {"type": "object", "errorMessage": NOT_BARE}})

        schema: Json = {
            "type": ["string", "object"],
            "anyOf": [*bare, self._call(kinds, list(by_key.values())), NOT_TEXT],
            "properties": {"kind": {"anyOf": list(names.values())}},
        }
        if not kinds.default:
            schema["required"] = ["kind"]
        schema["allOf"] = branches

        # The type stays outside, so that a key may take null as well.
        for noun, within in WITHIN_KINDS.items():
            if kinds is within:
                types = schema.pop("type")
                described = {"description": f"A {noun}.", **schema}
                shared = self.shared(f"any_{noun.replace(' ', '_')}.within", described)
                return {"type": types, "allOf": [shared]}
        return schema

    def _call(self, kinds: AllowedKinds, known: list[KindSchema]) -> Json:
        """Return the schema of a kind with its parameters, `krum(f=2)`."""
        # The names of optimizers and schedules are many, and depend on optax.
        if "optimizer" in kinds.families or "schedule" in kinds.families:
            pattern = CALLED.format(r"\w+")
            schema = {"description": IN_CALL, "type": "string", "pattern": pattern}
            return self.shared("any_kind.call", schema)
        return {"type": "string", "pattern": CALLED.format("|".join(_all_names(known)))}

    def kind(self, kind: KindSchema) -> str:
        """Make a kind a definition, and return the definition's name."""
        factory = kind.factory
        parameters = inspect.signature(factory).parameters
        omitted = [f".no_{name}" for name in parameters if name not in kind.keys]
        key = f"{kind.family}.{kind.name}{''.join(omitted)}"
        if key in self.definitions:
            return key
        # It is there from the beginning: a kind may be one of its own keys.
        schema = self.definitions[key] = {"title": f"{kind.family} {kind.name}"}
        schema |= self.section(kind.model)

        properties = schema["properties"]
        call = _call_text(factory, [p for p in parameters.values() if p.name in properties])
        described = {
            "description": f"{docs_of(factory).summary}\n{call}",
            "enum": _all_names([kind]),
        }
        del properties["kind"]
        self._share_keys(kind, properties)
        schema["properties"] = {"kind": described, **properties}
        return key

    def _share_keys(self, kind: KindSchema, properties: Json) -> None:
        """Replace the keys that all kinds of a family have by references to definitions."""
        family = kind.family
        own_parameters = inspect.signature(kind.factory).parameters
        for name in kind.common.model_fields:
            if name not in own_parameters:
                properties[name] = self.shared(f"any_{family}.{name}", properties.pop(name))
        if family == "client":
            for name in CLIENT_SGD:
                if name not in properties:
                    field = self.field(short_field(name))
                    properties[name] = self.shared(f"any_{family}.{name}", field)
        if family == "optimizer":
            for name, schema in properties.items():
                if "allOf" in schema:  # a schedule
                    properties[name] = self._shared_schedule(f"any_{family}.{name}", schema)

    def _shared_schedule(self, key: str, schema: Json) -> Json:
        """Return a key that may be a schedule, with the schema of the schedule as a definition."""
        schedule = {
            "description": SCHEDULE,
            "anyOf": schema.pop("anyOf"),
            "allOf": schema["allOf"],
        }
        return {**schema, "allOf": [self.shared(key, schedule)]}

    def shared(self, key: str, schema: Json) -> Json:
        """Make a schema a definition, and return a reference to it."""
        self.definitions[key] = schema
        return {"$ref": f"#/definitions/{key}"}


def _all_names(kinds: list[KindSchema]) -> list[str]:
    """Return the names of kinds, each followed by its aliases."""
    names: list[str] = []
    for kind in kinds:
        names += [kind.name, *aliases_of(kind.name)]
    return names


def _pattern(kinds: list[KindSchema]) -> str:
    return f"^({'|'.join(_all_names(kinds))})$"


def _branch(key: str, kind: KindSchema, is_default: bool) -> Json:
    """Return what a mapping of this kind has to be as well."""
    mapping: Json = {"type": "object", "required": ["kind"]}
    if is_default:
        # An empty section is one of the default kind, and editors can complete it.
        mapping = {"type": ["object", "null"]}
    names = {"properties": {"kind": {"type": "string", "pattern": _pattern([kind])}}}
    return {"if": {**mapping, **names}, "then": {"$ref": f"#/definitions/{key}"}}


def _required(model: type[BaseModel]) -> list[str]:
    return [name for name, field in model.model_fields.items() if field.is_required()]


def _needs_parameters(kind: KindSchema) -> bool:
    return _required(kind.model) != ["kind"]


def _call_text(factory: Any, parameters: list[inspect.Parameter]) -> str:
    """Return `krum(f, neighbours=null)`."""
    arguments: list[str] = []
    for p in parameters:
        argument = p.name
        if p.default is not p.empty:
            argument += f"={json.dumps(to_jsonable_python(p.default))}"
        arguments.append(argument)
    return f"{factory.__name__}({', '.join(arguments)})"


def _bounds_of_list(notes: tuple) -> Json:
    """Return what a list's metadata says of it."""
    schema: Json = {}
    for note in notes:
        if isinstance(note, MinLen):
            schema["minItems"] = note.min_length
        if isinstance(note, MaxLen):
            schema["maxItems"] = note.max_length
        if isinstance(note, FieldInfo) and isinstance(note.json_schema_extra, dict):
            schema |= note.json_schema_extra
    return schema


def _is_free_mapping(annotation: Any) -> bool:
    """Whether a value may be a mapping with free keys."""
    members = (annotation, *typing.get_args(annotation))
    return any(member is dict or typing.get_origin(member) is dict for member in members)


def _has_free_mapping(schema: Json) -> bool:
    """Whether a key of a section is a mapping with free keys, which editors fail to insert."""
    inner_schemas = schema.get("properties", {}).values()
    return any(s.get("type") == "object" and "properties" not in s for s in inner_schemas)


def _either(alternatives: list[Json]) -> Json:
    """Return one schema for values of several types, if their other keywords do not collide.

    What is wrong with a value is then reported for its own type only.
    """
    types: list[str] = []
    merged: Json = {}
    for schema in alternatives:
        keywords = _inward(schema)
        type_ = keywords.pop("type")
        if "enum" in keywords:
            keywords = {"anyOf": [{"enum": keywords["enum"]}, {"not": {"type": type_}}]}
        if merged.keys() & keywords.keys():
            return {"anyOf": alternatives}
        types += type_ if isinstance(type_, list) else [type_]
        merged |= keywords

    if "number" in types:
        types = [name for name in types if name != "integer"]
    # Editors insert a default of the first type.
    types.sort(key=lambda name: name != "null")
    return {"type": types if len(types) > 1 else types[0], **merged}


def _inward(schema: Json) -> Json:
    """Return an equal schema whose inner schemas are in `allOf`.

    An editor that inserts the key then begins no mapping or list below it.
    """
    inner = ("properties", "required", "additionalProperties", "items")
    below = {name: schema[name] for name in inner if name in schema}
    above = {name: value for name, value in schema.items() if name not in below}
    if not below:
        return above
    return {**above, "allOf": [below, *schema.get("allOf", [])]}
