"""fedsim's own kinds, by what their signatures and docstrings say: known before their modules, and JAX, are imported.

Importing this lets `FAMILIES` know them all. `shipped.json` is made from the factories (`python -m fedsim.kinds`), and a test
compares the two. Who lists kinds, explains one or reads a scenario needs no more; who builds one calls `load_factories`.
"""

import json
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from inspect import Parameter, Signature, getdoc, signature
from typing import Annotated, Any, Literal, Optional, Union, get_args

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from fedsim.kinds.names import ALIASES, FAMILIES

FILE = files("fedsim.kinds") / "shipped.json"
ROOMS = (
    "clients",
    "codecs",
    "data",
    "fleet",
    "models",
    "rules",
    "sources",
    "stages",
)  # importing one registers its kinds


class Codec:
    """Stands for the noun `fedsim.types.Codec` in the signature of a codec that is made of another one."""


TYPES = {"Annotated": Annotated, "Literal": Literal, "Optional": Optional, "Union": Union} | {
    known.__name__: known
    for known in (int, float, str, bool, list, Ge, Gt, Le, Lt, MaxLen, MinLen, Codec)
}


def is_codec(annotation: Any) -> bool:
    """Whether a parameter is another codec, perhaps none."""
    return any(
        getattr(one, "__name__", "") == "Codec" for one in (annotation, *get_args(annotation))
    )


class Shipped:
    """A kind whose module was not imported yet: name, signature and docstring of its factory, and the way to call it."""

    def __init__(self, family: str, name: str, module: str, doc: str, parameters: dict[str, list]):
        self.family, self.__name__, self.__module__, self.__doc__ = family, name, module, doc
        self.parameters = parameters

    @cached_property
    def __signature__(self) -> Signature:
        return Signature([_parameter(name, *known) for name, known in self.parameters.items()])

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        load_factories()
        return FAMILIES[self.family][self.__name__](*arguments, **named)


def load() -> None:
    """Let `FAMILIES` and `ALIASES` know every kind that comes with fedsim, in the order in which messages name them."""
    known = (
        json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else None
    )  # while it is made
    if known is None or known["optax"] != version(
        "optax"
    ):  # whose optimizers and schedules are kinds, as they are there
        load_factories()
        return
    for family, kinds in known["kinds"].items():
        shipped = {name: Shipped(family, name, **kind) for name, kind in kinds.items()}
        FAMILIES[family] = {**shipped, **FAMILIES[family]}
    ALIASES.update(known["aliases"])


def load_factories() -> None:
    """Import the modules of all kinds: their factories take the places of what was known of them."""
    for room in ROOMS:
        import_module(f"fedsim.{room}")


def described() -> dict[str, Any]:
    """What `shipped.json` should hold, from the factories themselves."""
    load_factories()
    shipped = {
        family: {
            name: _entry(factory)
            for name, factory in kinds.items()
            if factory.__module__.startswith("fedsim.")
        }
        for family, kinds in FAMILIES.items()
        if family != "method"  # which are made of the others, and need no more than they say
    }
    return {"optax": version("optax"), "aliases": ALIASES, "kinds": shipped}


def _entry(factory: Callable) -> dict[str, Any]:
    parameters = signature(factory, eval_str=True).parameters.values()
    written = {
        p.name: [_written(p.annotation), *([] if p.default is p.empty else [p.default])]
        for p in parameters
    }
    return {"module": factory.__module__, "doc": getdoc(factory) or "", "parameters": written}


def _written(annotation: Any) -> str:
    """An annotation as an expression in the words of `TYPES`."""
    if type(annotation) is type:
        return annotation.__name__
    return repr(annotation).replace("typing.", "").replace("fedsim.types.server.", "")


def _parameter(name: str, written: str, *default: Any) -> Parameter:
    known = {"default": default[0]} if default else {}
    annotation = eval(
        written, {"__builtins__": {}}, TYPES
    )  # what `_written` made of one of our own
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, **known)


load()
