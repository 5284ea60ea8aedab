"""A method merged into a scenario: what it owns is replaced or must agree, everything else stays.

A method owns `client.kind`, the rule, and what stands after it; a rule as a method replaces only the rule.
"""

import inspect
import re
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.errors import Problem, ScenarioError, dotted
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.scenario.diagnostics import problem_at, problems_of
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.fragments import fragment_of
from fedsim.scenario.reader import Document
from fedsim.scenario.sections import METHODS
from fedsim.scenario.shorthand import call_of, meant_as_call

_METHOD = Annotated[Any, METHODS]
_ADAPTER: TypeAdapter = TypeAdapter(_METHOD)


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
    actual = f"found {value_in_words(written)}"
    meant = (
        meant_as_call(written, FAMILIES["rule"] | FAMILIES["method"])
        if isinstance(written, str)
        else ""
    )
    try:
        call = call_of(written) if isinstance(written, str) else None
    except ValueError as error:
        raise _method_error(document, f"{meant or error}, {actual}") from None
    if call is None:
        text = meant or "should be a method, NAME or NAME(a=1) (fedsim list methods)"
        raise _method_error(document, f"{text}, {actual}")
    return call


def _method_error(document: Document, text: str) -> ScenarioError:
    return ScenarioError([problem_at(document, ("method",), text)], document.file)


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
    section, fragment = _fragment(document, written)
    if replace:
        _require_untouched(document, fragment, label_of(written))
    else:
        _require_agreement(document, fragment, section.kind)
    values = {**document.values, "method": label_of(written)}
    places = document.places
    if "client" in fragment:
        values["client"] = _client(document.values.get("client", {}), fragment["client"])
    if isinstance(
        listed := document.values.get("server", []), list
    ):  # anything else is left to the schema to refuse
        links = _server(listed, fragment["server"], keep_tail=section.family == "rule")
        values["server"] = [link for _, link in links]
        places = _moved(places, [was for was, _ in links])
    return document._replace(values=values, places=places, broken=document.broken - {("method",)})


def _fragment(document: Document, written: Any) -> tuple[Any, dict[str, Any]]:
    """(checked section, what it stands for) of a method, or of a rule as one."""
    spelled = spelled_out(written, document)
    try:
        section: Any = _ADAPTER.validate_python(spelled)
    except ValidationError as error:
        problems = problems_of(document, _METHOD, spelled, error.errors(), above=("method",))
        raise ScenarioError(problems, document.file) from None
    parameters = {name: value for name, value in section.model_dump().items() if name != "kind"}
    if section.family == "rule":
        return section, {"server": [{"kind": section.kind, **parameters}]}
    return section, fragment_of(FAMILIES["method"][section.kind], **parameters)


def _kind(link: Any) -> str:
    kind = str(
        link.get("kind", "") if isinstance(link, dict) else link
    )  # whatever it is, the schema judges it later
    return ALIASES.get(kind, kind)


def _client(written: Any, method: dict[str, Any]) -> Any:
    """The method's client with the other keys of the file; those of its former kind are dropped, unknown ones stay."""
    if isinstance(written, str):
        return method
    if not isinstance(written, dict):
        return written  # left to the schema to refuse
    dropped = {"kind", *_parameters("client", _kind(written))}
    return {**{name: value for name, value in written.items() if name not in dropped}, **method}


def _parameters(family: str, kind: str) -> list[str]:
    """Hyper-parameters of a kind; none of one that is unknown."""
    factory = FAMILIES[family].get(kind)
    return list(inspect.signature(factory).parameters) if factory else []


def _server(listed: list, fragment: list[dict], keep_tail: bool) -> list[tuple[int | None, Any]]:
    """(index in the file, link): the rule in place of the file's; what stands after it stays for a rule's method.

    Links that are out of order or unknown stay where they are: what is wrong with the file is not mended silently.
    """
    families = [
        next((f for f in ("rule", "optimizer") if _kind(link) in FAMILIES[f]), "")
        for link in listed
    ]
    rules = [i for i, family in enumerate(families) if family == "rule"]
    after = (
        rules[0] + 1
        if rules
        else families.index("optimizer")
        if "optimizer" in families
        else len(listed)
    )
    head = [(i, listed[i]) for i in range(rules[0] if rules else after)]
    tail = [
        (i, listed[i]) for i in range(after, len(listed)) if keep_tail or families[i] != "optimizer"
    ]
    return [*head, *((None, link) for link in fragment), *tail]


def _moved(places: dict, order: list[int | None]) -> dict:
    """Places of a server list whose links stand elsewhere now."""
    now = {was: i for i, was in enumerate(order) if was is not None}
    in_list = {
        p: place
        for p, place in places.items()
        if p[:1] == ("server",) and len(p) > 1 and p[1] != "<key>"
    }
    elsewhere = {path: place for path, place in places.items() if path not in in_list}
    moved = {
        ("server", now[path[1]], *path[2:]): place
        for path, place in in_list.items()
        if path[1] in now
    }
    added = [("server", i) for i, was in enumerate(order) if was is None]
    return (
        elsewhere | moved | {path: places[("method",)] for path in added if ("method",) in places}
    )


def _require_untouched(document: Document, fragment: dict[str, Any], label: str) -> None:
    """What a method of the command line replaces, no `--set` may have changed: it would have no effect."""
    client, listed = document.values.get("client"), document.values.get("server")
    replaced: set[tuple] = {("method",)}
    if "client" in fragment:
        replaced |= {("client", name) for name in ("kind", *_parameters("client", _kind(client)))}
    if isinstance(listed, list):
        kinds = FAMILIES["rule"].keys() | (
            FAMILIES["optimizer"].keys() if "client" in fragment else set()
        )
        replaced |= {("server", i) for i, link in enumerate(listed) if _kind(link) in kinds}
    problems = [
        Problem(dotted(path), f"method {label} replaces this; take out --set {edit}, or the method")
        for path, edit in document.edits
        if path[:1] in replaced or path[:2] in replaced
    ]
    if problems:
        raise ScenarioError(problems, document.file)


def _require_agreement(document: Document, fragment: dict[str, Any], name: str) -> None:
    """What the file says beside `method:` must be what the method says. A default never conflicts."""
    client, listed = document.values.get("client"), document.values.get("server")
    problems: list[Problem] = []
    if "client" in fragment and isinstance(client, dict | str):
        problems += _difference(document, ("client",), client, fragment["client"], name)
    listed = listed if isinstance(listed, list) else []
    for i, link in enumerate(listed):
        if _kind(link) in FAMILIES["rule"]:
            problems += _difference(document, ("server", i), link, fragment["server"][0], name)
    tails = [i for i, link in enumerate(listed) if _kind(link) in FAMILIES["optimizer"]]
    optimisers = fragment["server"][1:]
    if "client" in fragment and len(tails) == len(optimisers):
        for i, link in zip(tails, optimisers, strict=True):
            problems += _difference(document, ("server", i), listed[i], link, name)
    elif "client" in fragment and tails:
        text = f"method {name}{_line_of_method(document)} owns what stands after the rule; take out one of them"
        problems.append(problem_at(document, ("server", tails[0]), text))
    if problems:
        raise ScenarioError(problems, document.file)


def _difference(
    document: Document, path: tuple, written: Any, link: dict, name: str
) -> list[Problem]:
    """The first key in which a link of the file is not what the method makes of it."""
    keys = written if isinstance(written, dict) else {"kind": written}
    for key, value in keys.items():
        if key in link and (_kind(keys) if key == "kind" else value) != link[key]:
            other = f"{value_in_words(link[key])} in method {name}{_line_of_method(document)}"
            place = (*path, key) if isinstance(written, dict) else path
            text = f"is {value_in_words(value)} here and {other}; take out one of them"
            return [problem_at(document, place, text)]
    return []


def _line_of_method(document: Document) -> str:
    return f" (line {document.places[('method',)][0]})" if ("method",) in document.places else ""
