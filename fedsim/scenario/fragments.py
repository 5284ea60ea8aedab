"""What a method stands for: a client link and a server list, every link as a mapping."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from fedsim.kinds import ALIASES, FAMILIES
from fedsim.kinds.claims import ranges_of


def fragment_of(factory: Callable[..., dict], **parameters: Any) -> dict[str, Any]:
    """Return what a method stands for with these parameters, every link as a mapping.

    A user's method may give the names of links alone, as a scenario may.
    """
    fragment = factory(**parameters)
    server = [_as_mapping(link) for link in fragment["server"]]
    others = other_sections(fragment)
    if "client" not in fragment:
        return {"server": server, **others}
    return {"client": _as_mapping(fragment["client"]), "server": server, **others}


def other_sections(fragment: dict[str, Any]) -> dict[str, Any]:
    """Return what a method sets besides client and server, by section."""
    return {name: value for name, value in fragment.items() if name not in ("client", "server")}


def _as_mapping(link: Any) -> dict[str, Any]:
    return {"kind": link} if isinstance(link, str) else link


def links_of(fragment: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (section, family, link) of all that a method sets, in the order in which data flow."""
    if "client" in fragment:
        yield "client", "client", fragment["client"]
    for link in fragment["server"]:
        kind = ALIASES.get(link["kind"], link["kind"])
        family = next(f for f in ("stage", "rule", "optimizer") if kind in FAMILIES[f])
        yield "server", family, {**link, "kind": kind}


def ranges_of_method(name: str, client: str) -> dict[str, str]:
    """Return what the files of a method's links, and its own, say it is tuned over.

    Returns:
      A parameter of the method, or the path of a key, -> the range as text; nothing for a name
      that is no method.
    """
    kind = ALIASES.get(name, name)
    factory = FAMILIES["method"].get(kind) or FAMILIES["rule"].get(kind)
    if factory is None:
        return {}
    parameters = inspect.signature(factory).parameters
    ranges: dict[str, str] = {}
    for part in (*_parts_of(factory, client), factory):  # the last one counts
        for path, text in ranges_of(part).items():
            if "." in path or path in parameters:
                ranges[path] = text
    return ranges


def _parts_of(factory: Callable[..., Any], client: str) -> list[Callable[..., Any]]:
    """The factories of a method's links, of those that it has without arguments."""
    if FAMILIES["method"].get(factory.__name__) is not factory:  # a rule
        return [FAMILIES["client"][client]]
    parameters = inspect.signature(factory).parameters.values()
    if any(parameter.default is parameter.empty for parameter in parameters):
        return [FAMILIES["client"][client]]
    fragment = fragment_of(factory)
    parts = [FAMILIES[family][link["kind"]] for _, family, link in links_of(fragment)]
    return parts if "client" in fragment else [FAMILIES["client"][client], *parts]
