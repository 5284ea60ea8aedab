"""What there is: every kind of every family, with its parameters' names and the first line of its docstring."""

import inspect

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods, and with the schema all families)
from fedsim.compose import ALIASES, FAMILIES


def catalogue(family: str | None) -> dict[str, dict[str, str]]:
    """Family (plural) -> kind with its parameters -> one line; one family or all of them."""
    found: dict[str, dict[str, str]] = {}
    for name, kinds in FAMILIES.items():
        if family is None or family in (name, name + "s"):
            found[name + "s"] = {
                _signature(kind, factory): _line(kind, factory) for kind, factory in sorted(kinds.items())
            }
    return found


def _signature(kind: str, factory) -> str:
    names = ", ".join(inspect.signature(factory).parameters)
    return f"{kind}({names})" if names else kind


def _line(kind: str, factory) -> str:
    aliases = sorted(alias for alias, name in ALIASES.items() if name == kind)
    also = f" [also: {', '.join(aliases)}]" if aliases else ""
    return (inspect.getdoc(factory) or "").split("\n")[0] + also
