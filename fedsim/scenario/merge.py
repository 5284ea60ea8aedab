"""A method merged into a scenario: what it owns is replaced or must agree, everything else stays.

A method owns `client.kind`, the rule, and what stands after it; a rule as a method replaces only the rule.
"""

import inspect
import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.compose import ALIASES, FAMILIES
from fedsim.errors import Problem, ScenarioError, dotted
from fedsim.scenario.diagnostics import explain, problem_at
from fedsim.scenario.expected import shown
from fedsim.scenario.fragments import fragment_of
from fedsim.scenario.reader import Document, parse
from fedsim.scenario.schema import per_registry, union


@per_registry
def _kinds() -> Any:
    """Every method, and every rule as one."""
    return union("method", also=("rule",))


def label_of(written: Any) -> str:
    """What stands in the `method` column: as typed, without spaces."""
    if isinstance(written, dict):
        numbers = ",".join(f"{name}={value}" for name, value in written.items() if name != "kind")
        return f"{written.get('kind')}({numbers})" if numbers else str(written.get("kind"))
    return re.sub(r"\s+", "", str(written))


def spelled_out(written: Any, document: Document) -> dict[str, Any]:
    """`name`, `name(a=1)` or `{kind: name, a: 1}` -> the last form."""
    if isinstance(written, dict):
        return written
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(?:\(([\w\s.,:=+\[\]{}()'\"-]*)\))?\s*", str(written), re.ASCII)
    if not match or not isinstance(written, str):
        raise _of_method(
            document, f"should be a method, NAME or NAME(a=1) (fedsim list methods), found {shown(written)}"
        )
    inside = ", ".join(part.replace("=", ": ", 1) for part in top_level(match[2] or ""))
    try:
        values = parse(f"value: {{{inside}}}", "method").values["value"]
    except ScenarioError as error:
        what = error.problems[0].what.partition(" (it began")[0]
        raise _of_method(document, f"{what}; write NAME(a=1, b=2), found {shown(written)}") from None
    if "kind" in values:
        raise _of_method(document, f"the kind stands before the bracket; write NAME(a=1), found {shown(written)}")
    return {"kind": match[1], **values}


def _of_method(document: Document, what: str) -> ScenarioError:
    return ScenarioError([problem_at(document, ("method",), what)], document.file)


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


def with_method(document: Document, written: Any, replace: bool) -> Document:
    """The document with a method's fragment merged in.

    Args:
      document: as written, `--set` applied.
      written: the method, in any of its forms.
      replace: a method named on the command line replaces what it owns; one that stands in the file must not meet
        another explicit client kind or rule there.

    Raises:
      ScenarioError: for an unknown method, wrong hyper-parameters, or a conflict.
    """
    asked = spelled_out(written, document)
    kinds = _kinds()
    try:
        section: Any = TypeAdapter(kinds).validate_python(asked)
    except ValidationError as error:
        raise ScenarioError(explain(document, kinds, error.errors(), ("method",)), document.file) from None
    own = {name: value for name, value in section.model_dump().items() if name != "kind"}
    if section.family == "rule":
        fragment: dict[str, Any] = {"server": [{"kind": section.kind, **own}]}
    else:
        fragment = fragment_of(FAMILIES["method"][section.kind], **own)
    if replace:
        _demand_untouched(document, fragment, label_of(written))
    else:
        _demand_agreement(document, fragment, section.kind)
    values = {**document.values, "method": label_of(written)}
    places = document.places
    if "client" in fragment:
        values["client"] = _client(document.values.get("client", {}), fragment["client"])
    if isinstance(listed := document.values.get("server", []), list):  # anything else is left to the schema to refuse
        links = _server(listed, fragment["server"], keep_tail=section.family == "rule")
        values["server"] = [link for _, link in links]
        places = _moved(places, [was for was, _ in links])
    return document._replace(values=values, places=places)


def _kind(link: Any) -> str:
    kind = str(link.get("kind", "") if isinstance(link, dict) else link)  # whatever it is, the schema judges it later
    return ALIASES.get(kind, kind)


def _client(mine: Any, own: dict[str, Any]) -> Any:
    """The method's client with the other keys of the file; its former kind's own are dropped, unknown ones stay."""
    if isinstance(mine, str):
        return own
    if not isinstance(mine, dict):
        return mine  # left to the schema to refuse
    former = FAMILIES["client"].get(_kind(mine))
    dropped = {"kind"} | (set(inspect.signature(former).parameters) if former else set())
    return {**{name: value for name, value in mine.items() if name not in dropped}, **own}


def _server(listed: list, fragment: list[dict], keep_tail: bool) -> list[tuple[int | None, Any]]:
    """(index in the file, link): the rule in place of the file's; what stands after it stays for a rule's method.

    Links that are out of order or unknown stay where they are: what is wrong with the file is not mended silently.
    """
    families = ["rule" if _kind(link) in FAMILIES["rule"] else "optimizer" if _is_tail(link) else "" for link in listed]
    rules = [i for i, family in enumerate(families) if family == "rule"]
    after = rules[0] + 1 if rules else families.index("optimizer") if "optimizer" in families else len(listed)
    tail = [i for i in range(after, len(listed)) if keep_tail or families[i] != "optimizer"]
    there = [(i, listed[i]) for i in range(rules[0] if rules else after)]
    return [*there, *((None, link) for link in fragment), *((i, listed[i]) for i in tail)]


def _is_tail(link: Any) -> bool:
    return _kind(link) in FAMILIES["optimizer"]


def _moved(places: dict, order: list[int | None]) -> dict:
    """Places of a server list whose links stand elsewhere now."""
    now = {was: i for i, was in enumerate(order) if was is not None}
    kept = {
        path: place for path, place in places.items() if path[:1] != ("server",) or len(path) == 1 or path[1] == "<key>"
    }
    inside = {path: place for path, place in places.items() if path[:1] == ("server",) and len(path) > 1}
    moved = {("server", now[path[1]], *path[2:]): place for path, place in inside.items() if path[1] in now}
    made = [("server", i) for i, was in enumerate(order) if was is None]
    return kept | moved | {path: places[("method",)] for path in made if ("method",) in places}


def _demand_untouched(document: Document, fragment: dict[str, Any], label: str) -> None:
    """What a method of the command line replaces, no `--set` may have changed: it would have no effect."""
    client, listed = document.values.get("client"), document.values.get("server")
    former = FAMILIES["client"].get(_kind(client)) if "client" in fragment else None
    gone: set[tuple] = {("method",)}
    gone |= {("client", name) for name in ("kind", *(inspect.signature(former).parameters if former else ()))}
    if isinstance(listed, list):
        replaced = FAMILIES["rule"].keys() | (FAMILIES["optimizer"].keys() if "client" in fragment else set())
        gone |= {("server", i) for i, link in enumerate(listed) if _kind(link) in replaced}
    if "client" not in fragment:
        gone = {path for path in gone if path[0] != "client"}
    problems = [
        Problem(dotted(path), f"method {label} replaces this; take out --set {edit}, or the method")
        for path, edit in document.edits
        if path[:1] in gone or path[:2] in gone
    ]
    if problems:
        raise ScenarioError(problems, document.file)


def _demand_agreement(document: Document, fragment: dict[str, Any], name: str) -> None:
    """What the file says beside `method:` must be what the method says. A default never conflicts."""
    values = document.values
    problems: list[Problem] = []
    client, listed = values.get("client"), values.get("server")
    if "client" in fragment and isinstance(client, dict | str):
        problems += _differing(document, ("client",), client, fragment["client"], name)
    listed = listed if isinstance(listed, list) else []
    for i, link in enumerate(listed):
        if _kind(link) in FAMILIES["rule"]:
            problems += _differing(document, ("server", i), link, fragment["server"][0], name)
    tails, own = [i for i, link in enumerate(listed) if _is_tail(link)], fragment["server"][1:]
    if "client" in fragment and len(tails) == len(own):
        for i, wanted in zip(tails, own, strict=True):
            problems += _differing(document, ("server", i), listed[i], wanted, name)
    elif "client" in fragment and tails:
        what = f"method {name}{_also(document.places)} owns what stands after the rule; take out one of them"
        problems.append(problem_at(document, ("server", tails[0]), what))
    if problems:
        raise ScenarioError(problems, document.file)


def _differing(document: Document, path: tuple, found: Any, wanted: dict, name: str) -> list[Problem]:
    """The first key in which a link of the file is not what the method makes of it."""
    written = found if isinstance(found, dict) else {"kind": found}
    for key, value in written.items():
        if key in wanted and (_kind(written) if key == "kind" else value) != wanted[key]:
            meant = f"{shown(wanted[key])} in method {name}{_also(document.places)}"
            at = (*path, key) if isinstance(found, dict) else path
            return [problem_at(document, at, f"is {shown(value)} here and {meant}; take out one of them")]
    return []


def _also(places: dict) -> str:
    return f" (line {places[('method',)][0]})" if ("method",) in places else ""
