"""Every kind of every family, with its parameters' names and the first line of its docstring."""

import inspect
from collections.abc import Callable
from typing import Any

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.scenario.docs import docs_of, labelled_parts
from fedsim.scenario.expected import plural_of
from fedsim.scenario.fragments import fragment_of, links_of
from fedsim.spelling import plain


def catalogue(family: str | None) -> dict[str, dict[str, dict[str, Any]]]:
    """Return family (plural) -> kind -> entry.

    An entry has `written`, `summary`, `parameters` and `aliases`. The entry of a method also has
    `client` and `server`, its links, `state`, what they store, and `sends`, what a client sends.

    Args:
      family: the family, singular or plural, in any spelling; None for all of them.
    """
    entries: dict[str, dict[str, dict[str, Any]]] = {}
    for name, kinds in FAMILIES.items():
        if family is None or name == family_named(family):
            rows = {kind: _entry(name, kind, kinds[kind]) for kind in sorted(kinds)}
            entries[plural_of(name)] = rows
    return entries


def family_named(word: str) -> str:
    """Return the family of a name, singular or plural, in any spelling; empty if there is none."""
    for family in FAMILIES:
        if plain(word) in (plain(family), plain(plural_of(family)), plain(f"{family}s")):
            return family
    return ""


def aliases_of(kind: str) -> list[str]:
    """Return the aliases of a kind, sorted."""
    return sorted(alias for alias, name in ALIASES.items() if name == kind)


def _entry(family: str, kind: str, factory: Callable) -> dict[str, Any]:
    names = list(inspect.signature(factory).parameters)
    entry: dict[str, Any] = {
        "written": f"{kind}({', '.join(names)})" if names else kind,
        "summary": docs_of(factory).summary,
        "parameters": names,
        "aliases": aliases_of(kind),
    }
    if family == "method":
        entry |= _links_in_words(factory)
    return entry


def _links_in_words(factory: Callable) -> dict[str, str]:
    """Return a method's links, what they store, and what a client sends, in words.

    A method that has a parameter without default has no entry: its links depend on it.
    """
    parameters = inspect.signature(factory).parameters.values()
    if any(p.default is p.empty for p in parameters):
        return {}

    links = list(links_of(fragment_of(factory)))
    docs = [
        labelled_parts(docs_of(FAMILIES[family][link["kind"]]).body) for _, family, link in links
    ]
    first_docs = docs[0]
    states = [parts["State"] for parts in docs if parts.get("State", "none") != "none"]
    sends = first_docs.get("Sends", "")
    if any("loss" in parts.get("Needs", "") for parts in docs):
        sends += ", and its loss"

    client_kinds = [link["kind"] for section, _, link in links if section == "client"]
    server_links = [_in_words(link) for section, _, link in links if section == "server"]
    return {
        "client": client_kinds[0] if client_kinds else "",
        "server": " → ".join(server_links),
        "state": "; ".join(states) or first_docs.get("State", ""),
        "sends": sends,
    }


def _in_words(link: dict[str, Any]) -> str:
    """Return `mean(uniform)`, or the kind alone."""
    return f"{link['kind']}({link['weights']})" if "weights" in link else link["kind"]
