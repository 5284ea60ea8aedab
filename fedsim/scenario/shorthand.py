"""What may be written short: `dirichlet(alpha=0.1)` for any kind, and the clients' sgd unnamed."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from fedsim.errors import ScenarioError
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.scenario.annotations import (
    annotation_of,
    fields_of,
    item_of,
    kinds_of,
    names_of,
    plain_types,
    section_for,
    sections_in,
)
from fedsim.scenario.reader import Document, KeyPath, parse, without_line
from fedsim.scenario.sections import CLIENT_SGD

# `name` or `name(a=1)`.
CALL = re.compile(
    r"\s*([A-Za-z_]\w*)\s*(?:\(([\w\s.,:=+\[\]{}()'\"-]*)\))?\s*",
    re.ASCII,
)

# `name(` or `name:`, and whatever follows.
_CALL_BEGINS = re.compile(r"\s*([A-Za-z_]\w*)\s*([(:])(.*)", re.ASCII | re.S)


def call_of(text: str) -> dict[str, Any] | None:
    """Return `name` or `name(a=1)` as `{kind: name, a: 1}`; None for any other text.

    Raises:
      ValueError: if the arguments cannot be read; the message says what to write.

    >>> call_of("krum(f=2, neighbours = 3)")
    {'kind': 'krum', 'f': 2, 'neighbours': 3}
    """
    match = CALL.fullmatch(text)
    if not match:
        return None
    name, arguments = match.groups(default="")

    parts = split_at_commas(arguments)
    if any("=" not in part and ":" not in part for part in parts):
        raise ValueError("every value needs its name; write NAME(a=1, b=2)")
    entries = ", ".join(_as_entry(part) for part in parts)
    try:
        values = parse(f"value: {{{entries}}}", "call").values["value"]
    except ScenarioError as error:
        reason = without_line(error.problems[0].what)
        raise ValueError(f"{reason}; write NAME(a=1, b=2)") from None
    if "kind" in values:
        raise ValueError("the kind comes before the bracket; write NAME(a=1)")
    return {"kind": name, **values}


def _as_entry(argument: str) -> str:
    """Return `a=1` as an entry of a YAML mapping."""
    name, equals, value = argument.partition("=")
    # A call in a call is quoted, or its commas would end it.
    if equals and _CALL_BEGINS.fullmatch(value):
        return f"{name}: {json.dumps(value)}"
    return argument.replace("=", ": ", 1)


def split_at_commas(text: str) -> list[str]:
    """Return the parts of a text between its commas outside brackets."""
    parts = [""]
    depth = 0
    for character in text:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def meant_as_call(text: str, factories: Mapping[str, Callable]) -> str:
    """Return how to write the call that a text was meant as, empty if it was not meant as one.

    `dirichlet:0.1` and `dirichlet(0.1)` are meant as calls.

    >>> meant_as_call("krum:2", {"krum": lambda f, neighbours=None: None})
    'write krum(f=2)'
    """
    match = _CALL_BEGINS.fullmatch(text)
    if match is None:
        return ""
    name, sign, rest = match.groups()
    factory = factories.get(ALIASES.get(name, name))
    if factory is None:
        return ""

    has_bracket = sign == "("
    rest = rest.strip()
    if has_bracket and not rest.endswith(")"):
        cut = "between { } or [ ] a text ends at a comma"
        return f"the bracket is not closed; {cut}: write the call in quotes, '{name}({rest}, ...)'"
    parameters = list(inspect.signature(factory, eval_str=True).parameters.values())
    if not parameters:
        return f"write {name}, which has no parameters"

    arguments = rest.removesuffix(")") if has_bracket else rest.replace(":", ",")
    parts = split_at_commas(arguments) or ["..."]
    named = [_with_name(part, p) for part, p in zip(parts, parameters, strict=False)]
    if has_bracket and named == parts:
        return ""
    return f"write {name}({', '.join(named)})"


def _with_name(argument: str, parameter: inspect.Parameter) -> str:
    """Return an argument with the name of its parameter, in brackets if that is a list."""
    if "=" in argument:
        return argument
    if plain_types(parameter.annotation) == {list} and not argument.startswith("["):
        argument = f"[{argument}]"
    return f"{parameter.name}={argument}"


def with_calls_expanded(document: Document, annotation: Any) -> Document:
    """Return a document with every call as a mapping; the schema refuses what is not readable."""
    if "(" not in str(document.values):
        return document
    return document._replace(values=expand_calls(document.values, annotation))


def expand_calls(value: Any, annotation: Any) -> Any:
    """Return a value of a scenario with every call in it as a mapping."""
    if isinstance(value, list):
        item = item_of(annotation)
        return value if item is None else [expand_calls(entry, item) for entry in value]
    if isinstance(value, dict):
        expanded: dict[str, Any] = {}
        for key, inner in value.items():
            expanded[key] = expand_calls(inner, annotation_of_key(annotation, value, key))
        return expanded
    if not isinstance(value, str) or "(" not in value or kinds_of(annotation) is None:
        return value

    try:
        call = call_of(value)
    except ValueError:
        return value
    return value if call is None else expand_calls(call, annotation)


def annotation_of_key(annotation: Any, mapping: dict, key: str) -> Any:
    """Return the annotation of a key of a mapping.

    If the kind of the mapping is unknown, the first kind that has the key decides.
    """
    section = section_for(annotation, mapping)
    candidates = sections_in(annotation) if section is None else [section]
    for candidate in candidates:
        if key in names_of(candidate):
            return annotation_of(fields_of(candidate)[key])
    return None


def with_optimizer(document: Document) -> Document:
    """Return a document with `client.momentum`, say, as `client.optimizer.momentum` of an sgd.

    If there is an optimizer as well, the keys stay, and the schema refuses them.
    """
    client = document.values.get("client")
    if not isinstance(client, dict) or "optimizer" in client:
        return document
    short = short_keys(client)
    if not short:
        return document

    optimizer = {"kind": "sgd", **{key: client[key] for key in short}}
    other_keys = {key: value for key, value in client.items() if key not in short}
    values = {**document.values, "client": {**other_keys, "optimizer": optimizer}}

    positions = dict(document.positions)
    for path, position in document.positions.items():
        if len(path) > 1 and path[0] == "client" and path[1] in short:
            positions["client", "optimizer", *path[1:]] = position
    return document._replace(values=values, positions=positions)


def short_keys(client: dict[str, Any]) -> list[str]:
    """Return the keys of a `client` section that are short for its optimizer's.

    A key that the client's kind has as a parameter is not.
    """
    factory = FAMILIES["client"].get(kind_name(client) or "sgd")
    parameters = inspect.signature(factory).parameters if factory else {}
    return [key for key in CLIENT_SGD if key in client and key not in parameters]


def kind_name(link: Any) -> str:
    """Return the name of a link's kind, aliases replaced; empty if it has none.

    Anything may be written there: what is not a link is left to the schema to refuse.
    """
    kind = link.get("kind", "") if isinstance(link, dict) else link
    return ALIASES.get(str(kind), str(kind))


def full_path(document: Document, path: KeyPath) -> KeyPath:
    """Return the path that `--set` changes: `client.momentum` may be the optimizer's."""
    client = document.values.get("client")
    if len(path) != 2 or path[0] != "client" or not isinstance(client, dict):
        return path
    key = path[1]
    optimizer = client.get("optimizer")
    if not isinstance(optimizer, dict) or optimizer.get("kind", "sgd") != "sgd":
        return path
    is_short = key in short_keys({**client, str(key): None})
    return ("client", "optimizer", key) if is_short else path
