"""fedsim's kinds as their signatures and docstrings describe them, before JAX is imported.

Importing this module fills `FAMILIES` with all of them, those of fields last. A `shipped.json` per
folder is made from the factories (`python -m fedsim.kinds`), and a test compares the two. Listing
kinds, explaining one or reading a scenario needs no more; building one calls `load_factories`.
"""

import json
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union, get_args

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from fedsim.installed import added, fields, folder_of, module_of
from fedsim.kinds.claims import ranges_of
from fedsim.kinds.names import ALIASES, FAMILIES
from fedsim.kinds.targets import TimeAndEvent

FILE = "shipped.json"
HERE = Path(__file__).parent

# Packages whose import registers their kinds.
PACKAGES = (
    "clients",
    "codecs",
    "data",
    "fleet",
    "losses",
    "models",
    "rules",
    "sources",
    "stages",
)


class Codec:
    """Stands for `fedsim.types.Codec` in the signature of a codec that is made of another one."""


class Rule:
    """Stands for `fedsim.types.Rule` in the signature of a rule that is made of other ones."""


class ServerLinks:
    """Stands for `fedsim.types.ServerLinks` in the signature of a kind that has servers."""


class Tokenizer:
    """Stands for `fedsim.sources.tokenizer.Tokenizer` in the signature of a set of texts."""


# The names that may be in the annotation of a hyper-parameter.
TYPES: dict[str, Any] = {
    "Annotated": Annotated,
    "Literal": Literal,
    "Optional": Optional,
    "Union": Union,
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "NoneType": type(None),
    "list": list,
    "dict": dict,
    "Ge": Ge,
    "Gt": Gt,
    "Le": Le,
    "Lt": Lt,
    "MaxLen": MaxLen,
    "MinLen": MinLen,
    "Codec": Codec,
    "Rule": Rule,
    "ServerLinks": ServerLinks,
    "Tokenizer": Tokenizer,
    "TimeAndEvent": TimeAndEvent,
}


def is_codec(annotation: Any) -> bool:
    """Whether a parameter is another codec, or None."""
    return _names(annotation, "Codec")


def is_rule(annotation: Any) -> bool:
    """Whether a parameter is another rule, or None."""
    return _names(annotation, "Rule")


def is_server_links(annotation: Any) -> bool:
    """Whether a parameter is what a server does, a chain of links, or None."""
    return _names(annotation, "ServerLinks")


def _names(annotation: Any, noun: str) -> bool:
    """Whether an annotation is one of `fedsim.types`, alone or as an alternative."""
    alternatives = (annotation, *get_args(annotation))
    return any(getattr(each, "__name__", "") == noun for each in alternatives)


class Shipped:
    """A kind whose module was not imported yet.

    It has the name, the signature, the docstring and the ranges of its factory, and calling it
    calls the factory.

    Args:
      parameters: name -> [annotation] or [annotation, default] of each hyper-parameter.
      ranges: over which ranges it is tuned, as its file says.
    """

    def __init__(
        self,
        family: str,
        name: str,
        module: str,
        doc: str,
        parameters: dict[str, list],
        ranges: dict[str, str] | None = None,
    ):
        self.family = family
        self.parameters = parameters
        self.ranges = ranges or {}
        self.__name__ = name
        self.__module__ = module
        self.__doc__ = doc

    @cached_property
    def __signature__(self) -> Signature:
        return Signature([_parameter(name, *entry) for name, entry in self.parameters.items()])

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        load_factories()
        return FAMILIES[self.family][self.__name__](*arguments, **options)


def load() -> None:
    """Fill `FAMILIES` and `ALIASES` with the kinds of fedsim, in the order of messages."""
    files = [folder / FILE for folder in homes().values()]
    complete = all(file.is_file() for file in files)  # they are missing while they are made
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files if complete]

    # Another version of optax may have other optimizers and schedules, which are kinds.
    if not complete or contents[0]["optax"] != version("optax"):
        load_factories()
        return
    for of_folder in reversed(contents):  # in front of kinds that were registered before
        for family, kinds in of_folder["kinds"].items():
            shipped = {name: Shipped(family, name, **kind) for name, kind in kinds.items()}
            FAMILIES[family] = {**shipped, **FAMILIES[family]}
        ALIASES.update(of_folder["aliases"])


def homes() -> dict[str, Path]:
    """Return package -> the folder of its `shipped.json`: fedsim's, then that of every field."""
    of_fields = {package.__name__: folder_of(package) for package in fields().values()}
    return {"fedsim": HERE, **of_fields}


def load_factories() -> None:
    """Import the modules of all kinds, whose factories replace what described them."""
    for package in PACKAGES:
        import_module(f"fedsim.{package}")
    for package, modules in added("KINDS"):
        for module in modules:
            module_of(package, module)


def described() -> dict[str, dict[str, Any]]:
    """Return package -> what its `shipped.json` should hold, from the factories themselves."""
    load_factories()
    contents: dict[str, dict[str, Any]] = {home: {"aliases": {}, "kinds": {}} for home in homes()}
    contents["fedsim"]["optax"] = version("optax")
    for family, kinds in FAMILIES.items():
        if family == "method":  # methods are made of the other kinds, and need no more
            continue
        for name, factory in kinds.items():
            home = home_of(factory)
            if home is not None:
                contents[home]["kinds"].setdefault(family, {})[name] = _entry(factory)
    for other, name in ALIASES.items():
        home = next(home for home in homes() if _has_kind(contents[home], name))
        contents[home]["aliases"][other] = name
    return contents


def home_of(factory: Callable) -> str | None:
    """Return the package that ships a kind: `fedsim` or that of a field; None for any other."""
    module = factory.__module__
    packages = [home for home in homes() if f"{module}.".startswith(f"{home}.")]
    return max(packages, key=len, default=None)


def _has_kind(contents: dict[str, Any], name: str) -> bool:
    return any(name in kinds for kinds in contents["kinds"].values())


def _entry(factory: Callable) -> dict[str, Any]:
    parameters = {}
    for parameter in signature(factory, eval_str=True).parameters.values():
        entry = [_expression(parameter.annotation)]
        if parameter.default is not parameter.empty:
            entry.append(parameter.default)
        parameters[parameter.name] = entry
    entry = {
        "module": factory.__module__,
        "doc": getdoc(factory) or "",
        "parameters": parameters,
    }
    ranges = ranges_of(factory)
    if ranges:
        entry["ranges"] = ranges
    return entry


def _expression(annotation: Any) -> str:
    """An annotation as an expression with the names of `TYPES`."""
    if type(annotation) is type:
        return annotation.__name__
    expression = repr(annotation).replace("typing.", "").replace("fedsim.types.server.", "")
    expression = expression.replace("fedsim.kinds.targets.", "")
    return expression.replace("fedsim.sources.tokenizer.", "")


def _parameter(name: str, expression: str, *default: Any) -> Parameter:
    """A parameter from its entry; `default` is empty or a single value."""
    # `_expression` wrote it, from one of fedsim's annotations.
    annotation = eval(expression, {"__builtins__": {}}, TYPES)
    options = {"default": default[0]} if default else {}
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, **options)


load()
