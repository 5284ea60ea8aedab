"""A method merged into a scenario: what it owns is replaced or must agree, everything else stays.

A method owns `client.kind`, the rule, and what follows the rule; a rule as a method owns only the
rule. A method may set other sections as well; one without messages, whose `wire` is empty, also
owns the stages before the rule, and all that follows it.
"""

import inspect
import re
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.errors import Problem, ScenarioError, dotted
from fedsim.kinds import FAMILIES
from fedsim.scenario.added import settled_keys
from fedsim.scenario.diagnostics import guess_of_kind, problem_at, problems_of
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.fragments import fragment_of, other_sections
from fedsim.scenario.reader import NOWHERE, Document, KeyPath, Position
from fedsim.scenario.schema import AllowedKinds
from fedsim.scenario.sections import METHODS
from fedsim.scenario.shorthand import call_of, kind_name, meant_as_call

_METHOD = Annotated[Any, METHODS]
_ADAPTER: TypeAdapter = TypeAdapter(_METHOD)


def label_of(method: Any) -> str:
    """Return what the `method` column says of a method: its text as written, without spaces."""
    if not isinstance(method, dict):
        return re.sub(r"\s+", "", str(method))
    kind = method.get("kind")
    parameters = [f"{name}={value}" for name, value in method.items() if name != "kind"]
    return f"{kind}({','.join(parameters)})" if parameters else str(kind)


def with_method(document: Document, method: Any, replace: bool) -> Document:
    """Return a document with a method's fragment merged in.

    Args:
      replace: whether it replaces what it owns, as a method of the command line does. A method of
        the file may not meet another explicit client kind or rule there.
    """
    section, fragment = _section_and_fragment(document, method)
    if replace:
        _require_not_edited(document, fragment, label_of(method))
    else:
        _require_agreement(document, fragment, section.kind)

    values = {**document.values, "method": label_of(method)}
    if "client" in fragment:
        values["client"] = _client(document.values.get("client", {}), fragment["client"])

    others = other_sections(fragment)
    for name, value in others.items():
        values[name] = _merged(document.values.get(name), value)

    positions = document.positions
    links = document.values.get("server", [])
    kinds_of_method = [link["kind"] for link in fragment["server"]]
    # Nodes of a graph mix in place of a mean.
    mixes_only = document.values.get("topology") is not None and kinds_of_method == ["mean"]
    if isinstance(links, list) and not mixes_only:  # else the schema refuses it
        is_rule = section.family == "rule"
        replaced_links = [] if _sends_nothing(others) else links
        settled = settled_keys(document.values)
        links_of_method = [_left_open(link, settled) for link in fragment["server"]]
        merged = _server(replaced_links, links_of_method, keep_optimizers=is_rule)
        values["server"] = [link for _, link in merged]
        positions = _moved_positions(positions, [index for index, _ in merged])

    broken = document.broken - {("method",)}
    return document._replace(values=values, positions=positions, broken=broken)


def _section_and_fragment(document: Document, method: Any) -> tuple[Any, dict[str, Any]]:
    """Return the validated section of a method, or of a rule as one, and what it stands for."""
    mapping = _as_mapping(document, method)
    try:
        section: Any = _ADAPTER.validate_python(mapping)
    except ValidationError as error:
        problems = problems_of(document, _METHOD, mapping, error.errors(), above=("method",))
        raise ScenarioError(problems, document.file) from None

    parameters = {name: value for name, value in section.model_dump().items() if name != "kind"}
    if section.family == "rule":
        return section, {"server": [{"kind": section.kind, **parameters}]}
    return section, fragment_of(FAMILIES["method"][section.kind], **parameters)


def _as_mapping(document: Document, method: Any) -> dict[str, Any]:
    """Return `name`, `name(a=1)` or `{kind: name, a: 1}` in the last form."""
    if isinstance(method, dict):
        return method

    remedy = "should be a method, NAME or NAME(a=1) (fedsim list methods)"
    if isinstance(method, str):
        try:
            call = call_of(method)
        except ValueError as error:
            call = None
            remedy = str(error)
        if call is not None:
            return call
        if meant := meant_as_call(method, FAMILIES["rule"] | FAMILIES["method"]):
            remedy = meant
        elif "(" not in method and (guess := guess_of_kind(method, METHODS)):
            text = f"no method or rule {value_in_words(method)}{guess}"
            raise ScenarioError([problem_at(document, ("method",), text)], document.file)
    problem = problem_at(document, ("method",), f"{remedy}, found {value_in_words(method)}")
    raise ScenarioError([problem], document.file)


def _client(client: Any, fragment: dict[str, Any]) -> Any:
    """Return the method's client with the keys of the file that do not belong to another kind."""
    if isinstance(client, str):
        return fragment
    if not isinstance(client, dict):
        return client  # the schema refuses it
    replaced = _keys_of_kind(client)
    other_keys = {name: value for name, value in client.items() if name not in replaced}
    return {**other_keys, **fragment}


def _keys_of_kind(client: Any) -> set[str]:
    """Return the keys of a client that belong to its kind; only `kind` if that is unknown."""
    factory = FAMILIES["client"].get(kind_name(client))
    parameters = inspect.signature(factory).parameters if factory else ()
    return {"kind", *parameters}


def without_parameters(section: dict[str, Any], kinds: AllowedKinds, kind: Any) -> dict[str, Any]:
    """Return a section with the keys that do not belong to its kind, for another kind."""
    before = kinds.kind_of(section)
    if before is None or before.name == kind_name(kind):
        return section
    dropped = {"kind", *inspect.signature(before.factory).parameters}
    return {key: value for key, value in section.items() if key not in dropped}


def without_replaced_by(document: Document, method: Any) -> Document:
    """Return a document without what a method replaces; as it is if the method is refused."""
    try:
        section, fragment = _section_and_fragment(document, method)
    except ScenarioError:
        return document

    values = {key: value for key, value in document.values.items() if key != "method"}
    if "client" in fragment and "client" in values:
        values["client"] = _client(values["client"], {})
    positions = document.positions
    links = values.get("server")
    if isinstance(links, list):
        left = _server(links, [], keep_optimizers=section.family == "rule")
        values["server"] = [link for _, link in left]
        positions = _moved_positions(positions, [index for index, _ in left])
        if not left:
            del values["server"]
    return document._replace(values=values, positions=positions)


def _merged(section: Any, value: Any) -> Any:
    """Return a section of the file with what a method sets of it: keys, or all of it."""
    if isinstance(section, dict) and isinstance(value, dict) and "kind" not in value:
        return {**section, **value}
    return value


def _sends_nothing(others: dict[str, Any]) -> bool:
    """Whether a method has no messages, given the other sections that it sets."""
    return others.get("wire") == []


def _server(
    links: list, fragment: list[dict], keep_optimizers: bool
) -> list[tuple[int | None, Any]]:
    """Return (index in the file, link) of `server` with a method's links in place of its rule.

    Links that are unknown or out of order stay, so that the schema refuses them.
    """
    families = [_family(link) for link in links]
    if "rule" in families:
        head_end = families.index("rule")
        tail_start = head_end + 1
    elif "optimizer" in families:
        head_end = tail_start = families.index("optimizer")
    else:
        head_end = tail_start = len(links)

    indexed = list(enumerate(links))
    head = indexed[:head_end]
    tail = indexed[tail_start:]
    if not keep_optimizers:
        tail = [(i, link) for i, link in tail if families[i] != "optimizer"]
    return [*head, *((None, link) for link in fragment), *tail]


def _left_open(link: dict, settled: dict[str, dict[str, Any]]) -> dict:
    """Return a method's link as one that leaves open what fields settle.

    Methods that are compared then have one rule, and differ in all else.
    """
    return {key: value for key, value in link.items() if key not in settled.get(link["kind"], {})}


def _without_settled(link: Any, settled: dict[str, dict[str, Any]]) -> Any:
    """Return a rule of the file without what fields settle, as a resolved scenario has it."""
    if not isinstance(link, dict):
        return link
    keys = settled.get(str(kind_name(link)), {})
    return {key: value for key, value in link.items() if key not in keys or keys[key] != value}


def _family(link: Any) -> str:
    """Return whether a link is a rule or an optimizer; empty if it is neither."""
    for family in ("rule", "optimizer"):
        if kind_name(link) in FAMILIES[family]:
            return family
    return ""


def _moved_positions(
    positions: dict[KeyPath, Position], indices: list[int | None]
) -> dict[KeyPath, Position]:
    """Return positions after the links of `server` have moved.

    Args:
      indices: the index in the file of every link; None for one of the method, whose position is
        that of the key `method`.
    """
    new_indices = {index: i for i, index in enumerate(indices) if index is not None}
    moved: dict[KeyPath, Position] = {}
    for path, position in positions.items():
        if len(path) < 2 or path[0] != "server" or path[1] == "<key>":
            moved[path] = position
        elif path[1] in new_indices:
            moved["server", new_indices[path[1]], *path[2:]] = position
    if ("method",) in positions:
        for i, index in enumerate(indices):
            if index is None:
                moved["server", i] = positions["method",]
    return moved


def _require_not_edited(document: Document, fragment: dict[str, Any], label: str) -> None:
    """Refuse a `--set` of what a method of the command line replaces: it would have no effect."""
    replaced: set[KeyPath] = {("method",)}
    families = ["rule"]
    if "client" in fragment:
        families.append("optimizer")
        replaced |= {("client", name) for name in _keys_of_kind(document.values.get("client"))}
    for i, link in enumerate(_links(document)):
        if any(kind_name(link) in FAMILIES[family] for family in families):
            replaced.add(("server", i))

    problems: list[Problem] = []
    for path, edit in document.edits:
        if path[:1] in replaced or path[:2] in replaced:
            text = f"method {label} replaces this; remove --set {edit}, or the method"
            problems.append(Problem(dotted(path), text))
    if problems:
        raise ScenarioError(problems, document.file)


def _links(document: Document) -> list[Any]:
    """Return the links of `server`; none if it is not a list, which the schema refuses."""
    links = document.values.get("server")
    return links if isinstance(links, list) else []


def _require_agreement(document: Document, fragment: dict[str, Any], name: str) -> None:
    """Refuse what the file says besides `method:` and the method says otherwise.

    A default never conflicts.
    """
    links = _links(document)
    rules = [i for i, link in enumerate(links) if kind_name(link) in FAMILIES["rule"]]
    optimizers = [i for i, link in enumerate(links) if kind_name(link) in FAMILIES["optimizer"]]
    others = other_sections(fragment)
    rule_of_method, *optimizers_of_method = fragment["server"]

    compared: list[tuple[KeyPath, Any, dict]] = []  # path, link of the file, link of the method
    client = document.values.get("client")
    if "client" in fragment and isinstance(client, dict | str):
        compared.append((("client",), client, fragment["client"]))
    settled = settled_keys(document.values)
    for i in rules:
        compared.append((("server", i), _without_settled(links[i], settled), rule_of_method))
    differing: dict[KeyPath, str] = {}
    for name, value in others.items():
        written = document.values.get(name)
        if isinstance(value, dict) and written is not None:
            compared.append(((name,), written, value))
        elif isinstance(value, list) and written not in (None, [], value):
            differing[(name,)] = _both(written, value)
    if "client" in fragment and len(optimizers) == len(optimizers_of_method):
        for i, link in zip(optimizers, optimizers_of_method, strict=True):
            compared.append((("server", i), links[i], link))

    method = f"method {name}{_line_of_method(document)}"
    for path, link, link_of_method in compared:
        difference = _difference(link, link_of_method)
        if difference is not None:
            key, text = difference
            differing[(*path, key) if isinstance(link, dict) else path] = text
    problems = [
        problem_at(document, path, f"{text} in {method}; {_way_out(document)}")
        for path, text in differing.items()
    ]
    if "client" in fragment and optimizers and len(optimizers) != len(optimizers_of_method):
        text = f"{method} owns what follows the rule; {_way_out(document)}"
        problems.append(problem_at(document, ("server", optimizers[0]), text))

    if _sends_nothing(others):
        for i in range(len(links)):
            if i not in (*rules, *optimizers):
                text = f"{method} has no messages that pass it; remove one of them"
                problems.append(problem_at(document, ("server", i), text))
    if problems:
        raise ScenarioError(problems, document.file)


def _way_out(document: Document) -> str:
    """Return how to end a conflict with a method, which may be that of a base."""
    if document.positions.get(("method",), NOWHERE).file:
        return "name a method here, or write method: null to drop that of the base"
    return "remove one of them"


def _difference(link: Any, link_of_method: dict) -> tuple[str, str] | None:
    """Return the first key in which a link is not what the method makes of it, and how."""
    values = link if isinstance(link, dict) else {"kind": link}
    for key, value in values.items():
        if key not in link_of_method:
            continue
        comparable = kind_name(values) if key == "kind" else value
        if comparable != link_of_method[key]:
            return key, _both(value, link_of_method[key])
    return None


def _both(written: Any, of_method: Any) -> str:
    return f"is {value_in_words(written)} here and {value_in_words(of_method)}"


def _line_of_method(document: Document) -> str:
    position = document.positions.get(("method",))
    return f" ({position.in_words()})" if position else ""
