"""What there is: every kind of every family, with its parameters' names and the first line of its docstring."""

import inspect
from typing import Any

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods, and with the schema all families)
from fedsim.compose import ALIASES, FAMILIES


def catalogue(family: str | None) -> dict[str, dict[str, dict[str, Any]]]:
    """Family (plural) -> kind -> `written`, `summary`, `parameters`, `aliases`; one family (either number) or all."""
    return {
        name + "s": {kind: _entry(kind, factory) for kind, factory in sorted(kinds.items())}
        for name, kinds in FAMILIES.items()
        if family is None or family in (name, name + "s")
    }


def _entry(kind: str, factory) -> dict[str, Any]:
    names = list(inspect.signature(factory).parameters)
    return {
        "written": f"{kind}({', '.join(names)})" if names else kind,
        "summary": (inspect.getdoc(factory) or "").split("\n")[0],
        "parameters": names,
        "aliases": sorted(alias for alias, name in ALIASES.items() if name == kind),
    }
