"""What may be written short: `dirichlet(alpha=0.1)` wherever a kind may stand, and the sgd of clients without its name."""

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
    section_for,
    sections_in,
)
from fedsim.scenario.expected import plain_types
from fedsim.scenario.reader import Document, Path, parse
from fedsim.scenario.sections import CLIENT_SGD

CALL = re.compile(
    r"\s*([A-Za-z_]\w*)\s*(?:\(([\w\s.,:=+\[\]{}()'\"-]*)\))?\s*", re.ASCII
)  # `name` or `name(a=1)`
_BEGUN = re.compile(
    r"\s*([A-Za-z_]\w*)\s*([(:])(.*)", re.ASCII | re.S
)  # a call, however it goes on, or `name:a=1`


def call_of(text: str) -> dict[str, Any] | None:
    """`name` or `name(a=1)` -> `{kind: name, a: 1}`; None for text of no such form.

    Raises:
      ValueError: for a call whose inside cannot be read; the message says what to write.

    >>> call_of("krum(f=2, neighbours = 3)")
    {'kind': 'krum', 'f': 2, 'neighbours': 3}
    """
    match = CALL.fullmatch(text)
    if not match:
        return None
    parts = top_level(match[2] or "")
    if any("=" not in part and ":" not in part for part in parts):
        raise ValueError("every value has its name; write NAME(a=1, b=2)")
    inside = ", ".join(map(_as_entry, parts))
    try:
        values = parse(f"value: {{{inside}}}", "call").values["value"]
    except ScenarioError as error:
        reason = error.problems[0].what.partition(" (it began")[0]
        raise ValueError(f"{reason}; write NAME(a=1, b=2)") from None
    if "kind" in values:
        raise ValueError("the kind stands before the bracket; write NAME(a=1)")
    return {"kind": match[1], **values}


def _as_entry(part: str) -> str:
    """`a=1` as an entry of a mapping; a call within a call is text, which a comma does not end."""
    name, equals, value = part.partition("=")
    return (
        f"{name}: {json.dumps(value)}"
        if equals and _BEGUN.fullmatch(value)
        else part.replace("=", ": ", 1)
    )


def top_level(text: str) -> list[str]:
    """Split at commas that stand in no bracket."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def meant_as_call(text: str, factories: Mapping[str, Callable]) -> str:
    """How to write the call that a text was meant to be: `dirichlet:0.1`, `dirichlet(0.1)`; empty where it is none.

    Args:
      text: as it stands in the scenario.
      factories: kinds that may stand there.

    >>> meant_as_call("krum:2", {"krum": lambda f, neighbours=None: None})
    'write krum(f=2)'
    """
    match = _BEGUN.fullmatch(text)
    factory = factories.get(ALIASES.get(match[1], match[1])) if match else None
    if match is None or factory is None:
        return ""
    name, sign, rest = match[1], match[2], match[3].strip()
    if sign == "(" and not rest.endswith(")"):
        cut = "between { } or [ ] a text ends at a comma"
        return f"the bracket is not closed; {cut}: write the call in quotes, '{name}({rest}, ...)'"
    parameters = inspect.signature(factory, eval_str=True).parameters.values()
    if not parameters:
        return f"write {name}, which has no parameters of its own"
    parts = top_level(rest.removesuffix(")") if sign == "(" else rest.replace(":", ",")) or ["..."]
    written = [
        part if "=" in part else f"{p.name}={_of_type(part, p)}"
        for p, part in zip(parameters, parts, strict=False)
    ]
    return "" if sign == "(" and written == parts else f"write {name}({', '.join(written)})"


def _of_type(part: str, parameter: inspect.Parameter) -> str:
    """A value, in brackets where its parameter is a list."""
    return f"[{part}]" if plain_types(parameter.annotation) == {list} and part[:1] != "[" else part


def expanded(document: Document, model: Any) -> Document:
    """The document with every call as a mapping; text that is no call, or none that can be read, stays for the schema.

    Args:
      document: as written.
      model: annotation of the whole.
    """
    if "(" not in str(document.values):
        return document
    return document._replace(values=mappings_of(document.values, model))


def mappings_of(value: Any, annotation: Any) -> Any:
    """A value of a scenario with every call in it as a mapping.

    Args:
      value: as written.
      annotation: of the place where it stands.
    """
    if isinstance(value, list):
        item = item_of(annotation)
        return value if item is None else [mappings_of(one, item) for one in value]
    if isinstance(value, dict):
        return {
            key: mappings_of(inner, _annotation_of_key(annotation, value, key))
            for key, inner in value.items()
        }
    if not (isinstance(value, str) and "(" in value and kinds_of(annotation)):
        return value
    try:
        call = call_of(value)
    except ValueError:
        return value
    return value if call is None else mappings_of(call, annotation)


def _annotation_of_key(annotation: Any, mapping: dict, key: str) -> Any:
    """What may stand at a key of a mapping; of a kind that is unknown, what the first one has there that knows the key."""
    own = section_for(annotation, mapping)
    sections = sections_in(annotation) if own is None else [own]
    field = next(
        (fields_of(section)[key] for section in sections if key in names_of(section)), None
    )
    return None if field is None else annotation_of(field)


def with_optimizer(document: Document) -> Document:
    """The document with `client: {momentum: ...}` as `client: {optimizer: {kind: sgd, momentum: ...}}`.

    Where an optimizer stands beside them the keys stay, for the schema to refuse.
    """
    client = document.values.get("client")
    if not isinstance(client, dict) or "optimizer" in client:
        return document
    short = short_keys(client)
    if not short:
        return document
    optimizer = {"kind": "sgd", **{key: client[key] for key in short}}
    others = {key: value for key, value in client.items() if key not in short}
    values = {**document.values, "client": {**others, "optimizer": optimizer}}
    moved = {
        ("client", "optimizer", *path[1:]): place
        for path, place in document.places.items()
        if path[:1] == ("client",) and path[1:2] and path[1] in short
    }
    return document._replace(values=values, places={**document.places, **moved})


def short_keys(client: dict[str, Any]) -> list[str]:
    """Keys of a client section that are short for its optimizer's; those of its own kind are not."""
    kind = str(client.get("kind", "sgd"))
    factory = FAMILIES["client"].get(ALIASES.get(kind, kind))
    parameters = inspect.signature(factory).parameters if factory else {}
    return [key for key in CLIENT_SGD if key in client and key not in parameters]


def written_out(document: Document, path: Path) -> Path:
    """A path that `--set` names: `client.momentum` is the optimizer's where an sgd stands there."""
    client = document.values.get("client")
    if (
        len(path) != 2
        or path[0] != "client"
        or path[1] not in CLIENT_SGD
        or not isinstance(client, dict)
    ):
        return path
    optimizer = client.get("optimizer")
    written = isinstance(optimizer, dict) and optimizer.get("kind", "sgd") == "sgd"
    return (
        ("client", "optimizer", path[1]) if written and short_keys({**client, path[1]: 0}) else path
    )
