"""What there is: every kind of every family, with its parameters' names and the first line of its docstring."""

import inspect
from collections.abc import Callable
from typing import Any

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.scenario.docs import docs_of, labelled_parts
from fedsim.scenario.fragments import fragment_of, links_of


def catalogue(family: str | None) -> dict[str, dict[str, dict[str, Any]]]:
    """Family (plural) -> kind -> `written`, `summary`, `parameters`, `aliases`; one family (either number) or all.

    A method's entry also has `client`, `server`, `state` and `sends`: its halves, what they keep, and what it costs to send.
    """
    return {
        name + "s": {kind: _entry(name, kind, factory) for kind, factory in sorted(kinds.items())}
        for name, kinds in FAMILIES.items()
        if family is None or family in (name, name + "s")
    }


def _entry(family: str, kind: str, factory: Callable) -> dict[str, Any]:
    names = list(inspect.signature(factory).parameters)
    return {
        "written": f"{kind}({', '.join(names)})" if names else kind,
        "summary": docs_of(factory).summary,
        "parameters": names,
        "aliases": sorted(alias for alias, name in ALIASES.items() if name == kind),
        **(_halves(factory) if family == "method" else {}),
    }


def _halves(factory: Callable) -> dict[str, str]:
    """What a method does where, what is kept for it, and what a client sends; nothing of one that has no defaults."""
    parameters = inspect.signature(factory).parameters.values()
    if any(p.default is p.empty for p in parameters):
        return {}
    links = list(links_of(fragment_of(factory)))
    parts = [
        labelled_parts(docs_of(FAMILIES[family][link["kind"]]).body) for _, family, link in links
    ]
    states = [part["State"] for part in parts if part.get("State", "none") != "none"]
    state = "; ".join(states) or parts[0].get("State", "")
    client = next((link["kind"] for section, _, link in links if section == "client"), "")
    line = [link for section, _, link in links if section == "server"]
    server = " → ".join(
        f"{link['kind']}({link['weights']})" if "weights" in link else link["kind"] for link in line
    )
    sends = parts[0].get("Sends", "") + ", and its loss" * any(
        "loss" in part.get("Needs", "") for part in parts
    )
    return {"client": client, "server": server, "state": state, "sends": sends}
