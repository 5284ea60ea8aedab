"""The JSON Schema of a scenario: completion, hover texts and diagnostics in editors.

It is pydantic's, of the models of `schema`, that is of signatures and docstrings. What is added is
how a kind decides about the other keys, in the form that yaml-language-server explains best:

- A section is narrowed down by `if kind: x, then ...`, so that a wrong key is reported as such, and
  not as a mismatch with forty alternatives.
- The text of a kind is at its name, where one looks for it.
"""

import inspect
import json
from importlib.metadata import version
from typing import Annotated, Any, Optional

from pydantic import BaseModel, Field, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, to_jsonable_python

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.scenario.catalogue import aliases_of
from fedsim.scenario.docs import docs_of
from fedsim.scenario.keys import short_field
from fedsim.scenario.schema import WITHIN_KINDS, AllowedKinds, KindSchema
from fedsim.scenario.sections import CLIENT_SGD, METHODS, Spec

Json = dict[str, Any]

DRAFT = "http://json-schema.org/draft-07/schema#"
IN_CALL = "A kind with its parameters, NAME(a=1)."
CALLED = r"^\s*({})\s*\(.*\)\s*$"

# `properties` tells it from other schemas without a name.
NOT_TEXT: Json = {"not": {"type": "string"}, "properties": {}}


def editor_schema(plugins: bool = True) -> Json:
    """Return the JSON Schema (draft 7) of scenarios, with the kinds of plug-ins or without."""
    # A scenario holds its method as text, and takes it in any form.
    text = Spec.model_fields["method"]
    method: Any = Optional[Annotated[Any, METHODS]]  # noqa: UP045 (`|` does not take Annotated)
    field = Field(default=text.default, description=text.description)
    model = create_model("Scenario", __base__=Spec, method=(method, field))

    draft = Draft(plugins)
    scenario = draft.generate_inner(model.__pydantic_core_schema__)
    scenario["properties"]["method"]["examples"] = ["fedprox(mu=0.1)"]
    return {
        "$schema": DRAFT,
        "$comment": f"optax {version('optax')}",
        **_unless_extended(scenario),
        "description": "A fedsim scenario.",
        "definitions": dict(sorted(draft.shared.items())),
    }


def _unless_extended(scenario: Json) -> Json:
    """Return the schema of a scenario in which `extends` makes up for keys that are missing."""
    complete: Json = {"required": scenario.pop("required"), "properties": {}}
    for name, schema in scenario["properties"].items():
        if schema.get("required") == ["kind"]:
            complete["properties"][name] = {"required": schema.pop("required")}
    return {**scenario, "if": {"required": ["extends"]}, "else": complete}


class Draft(GenerateJsonSchema):
    """A schema under construction; every kind becomes a definition, used wherever it is allowed.

    Attributes:
      plugins: whether to include kinds that are not fedsim's.
      shared: name, such as `rule.krum` -> schema.
    """

    def __init__(self, plugins: bool):
        super().__init__()
        self.plugins = plugins
        self.shared: dict[str, Json] = {}

    def generate_inner(self, schema: Any) -> Json:
        """Return the schema of a value, in which sections stand where they are used."""
        without_name: Any = {key: schema[key] for key in schema if key != "ref"}
        return super().generate_inner(without_name)

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Whether a key gets its own name as a title."""
        return False

    def model_schema(self, schema: Any) -> Json:
        """Return the schema of a section, whose text is that of its key."""
        section = super().model_schema(schema)
        # The texts of keys are set when pydantic has made its schema.
        for name, field in schema["cls"].model_fields.items():
            if field.description:
                text = {"description": field.description}
                section["properties"][name] = text | section["properties"][name]
        return {key: value for key, value in section.items() if key not in ("title", "description")}

    def get_schema_from_definitions(self, json_ref: Any) -> None:
        """Return nothing: pydantic need not know what is behind a reference of ours."""

    def union_schema(self, schema: Any) -> Json:
        """Return the schema of a union; kinds come first, as language servers explain the first."""
        union = super().union_schema(schema)
        if "anyOf" in union:
            union["anyOf"].sort(key=lambda member: "$ref" not in member)
        return union

    def dict_schema(self, schema: Any) -> Json:
        """Return the schema of a mapping with free keys: of more, language servers fail."""
        return {"type": "object"}

    def function_plain_schema(self, schema: Any) -> Json:
        """Return the schema of kinds, or of a union that is validated by form."""
        kinds = getattr(schema["function"]["function"], "__self__", None)
        if not isinstance(kinds, AllowedKinds):
            return super().function_plain_schema(schema)
        for noun, within in WITHIN_KINDS.items():
            if kinds is within:
                name = f"any_{noun.replace(' ', '_')}.within"
                known = self.shared.get(name) or {"description": f"A {noun}.", **self.kinds(kinds)}
                return self.share(name, known)
        return self.kinds(kinds)

    def kinds(self, kinds: AllowedKinds) -> Json:
        """Return the schema of a name alone, or a mapping whose other keys depend on its `kind`."""
        by_key: dict[str, KindSchema] = {}
        for kind in kinds:
            if self.plugins or kind.factory.__module__.startswith("fedsim."):
                by_key[self.kind(kind)] = kind

        names = {key: {"$ref": f"#/definitions/{key}/properties/kind"} for key in by_key}
        branches = [_branch(key, kind, kind.name == kinds.default) for key, kind in by_key.items()]
        bare = [names[key] for key, kind in by_key.items() if not _needs_parameters(kind)]

        schema: Json = {
            "type": ["string", "object"],
            "anyOf": [*bare, self._call(kinds, list(by_key.values())), NOT_TEXT],
            "properties": {"kind": {"anyOf": list(names.values())}},
            "allOf": branches,
        }
        return schema if kinds.default else {**schema, "required": ["kind"]}

    def _call(self, kinds: AllowedKinds, known: list[KindSchema]) -> Json:
        """Return the schema of a kind with its parameters, `krum(f=2)`."""
        # The names of optimizers and schedules are many, and depend on optax.
        if "optimizer" in kinds.families or "schedule" in kinds.families:
            pattern = CALLED.format(r"\w+")
            schema = {"description": IN_CALL, "type": "string", "pattern": pattern}
            return self.share("any_kind.call", schema)
        return {"type": "string", "pattern": CALLED.format("|".join(_all_names(known)))}

    def kind(self, kind: KindSchema) -> str:
        """Make a kind a definition, and return the definition's name."""
        factory = kind.factory
        parameters = inspect.signature(factory).parameters
        omitted = [f".no_{name}" for name in parameters if name not in kind.keys]
        key = f"{kind.family}.{kind.name}{''.join(omitted)}"
        if key in self.shared:
            return key
        # It is there from the beginning: a kind may be one of its own keys.
        schema = self.shared[key] = {"title": f"{kind.family} {kind.name}"}
        schema |= self.generate_inner(_core_schema(kind.model))
        schema["required"] = [name for name in schema["required"] if name != "kind"]

        properties = schema["properties"]
        call = _call_text(factory, [p for p in parameters.values() if p.name in properties])
        description = f"{docs_of(factory).summary}\n{call}"
        del properties["kind"]
        named = {"description": description, "enum": _all_names([kind])}
        properties = {"kind": named, **properties}
        for name in kind.common.model_fields:
            if name not in parameters:
                properties[name] = self.share(f"any_{kind.family}.{name}", properties[name])
        if kind.family == "client":
            for name in CLIENT_SGD:
                if name not in properties:
                    field: Any = (short_field(name).annotation, short_field(name))
                    model = create_model("Short", key=field)
                    short = self.generate_inner(_core_schema(model))["properties"]["key"]
                    properties[name] = self.share(f"any_client.{name}", short)
        schema["properties"] = properties
        return key

    def share(self, name: str, schema: Json) -> Json:
        """Make a schema a definition, and return a reference to it."""
        self.shared[name] = schema
        return {"$ref": f"#/definitions/{name}"}


def _core_schema(model: type[BaseModel]) -> CoreSchema:
    """Return the core schema of a model, which is built when it is first used."""
    return TypeAdapter(model).core_schema


def _all_names(kinds: list[KindSchema]) -> list[str]:
    """Return the names of kinds, each followed by its aliases."""
    names: list[str] = []
    for kind in kinds:
        names += [kind.name, *aliases_of(kind.name)]
    return names


def _branch(key: str, kind: KindSchema, is_default: bool) -> Json:
    """Return what a mapping of this kind has to be as well."""
    mapping: Json = {"type": "object", "required": ["kind"]}
    if is_default:
        # An empty section is one of the default kind, and editors can complete it.
        mapping = {"type": ["object", "null"]}
    pattern = f"^({'|'.join(_all_names([kind]))})$"
    names = {"properties": {"kind": {"type": "string", "pattern": pattern}}}
    return {"if": {**mapping, **names}, "then": {"$ref": f"#/definitions/{key}"}}


def _needs_parameters(kind: KindSchema) -> bool:
    fields = kind.model.model_fields
    return any(field.is_required() for name, field in fields.items() if name != "kind")


def _call_text(factory: Any, parameters: list[inspect.Parameter]) -> str:
    """Return `krum(f, neighbours=null)`."""
    arguments: list[str] = []
    for p in parameters:
        argument = p.name
        if p.default is not p.empty:
            argument += f"={json.dumps(to_jsonable_python(p.default))}"
        arguments.append(argument)
    return f"{factory.__name__}({', '.join(arguments)})"
