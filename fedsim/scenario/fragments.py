"""The one reading of what a method stands for: a user's may be written as shortly as a scenario."""

from collections.abc import Callable, Iterator
from typing import Any

from fedsim.kinds import ALIASES, FAMILIES


def fragment_of(factory: Callable[..., dict], **parameters: Any) -> dict[str, Any]:
    """What a method stands for, with every link as a mapping: a user's may write names alone, as a scenario may."""
    written = factory(**parameters)
    mapping = lambda link: {"kind": link} if isinstance(link, str) else link
    client = {"client": mapping(written["client"])} if "client" in written else {}
    return {**client, "server": [mapping(link) for link in written["server"]]}


def links_of(fragment: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(section, family, link) of everything that a method sets, in the order in which data flows."""
    if "client" in fragment:
        yield "client", "client", fragment["client"]
    for link in fragment["server"]:
        kind = ALIASES.get(link["kind"], link["kind"])
        yield (
            "server",
            next(f for f in ("stage", "rule", "optimizer") if kind in FAMILIES[f]),
            {**link, "kind": kind},
        )
