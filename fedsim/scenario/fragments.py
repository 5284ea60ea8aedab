"""What a method stands for: a client link and a server list, every link as a mapping."""

from collections.abc import Callable, Iterator
from typing import Any

from fedsim.kinds import ALIASES, FAMILIES


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
