"""Names: how a function becomes a kind. Every family is a dictionary from name to annotated factory."""

import inspect
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from fedsim.errors import RegistrationError

F = TypeVar("F", bound=Callable[..., Any])

FAMILIES: dict[str, dict[str, Callable[..., Any]]] = {
    family: {}
    for family in (
        "dataset",
        "partition",
        "skew",
        "data_attack",
        "augmentation",
        "model",
        "cohort",
        "client",
        "rule",
        "stage",
        "aggregate_stage",
        "attack",
        "codec",
        "optimizer",
        "schedule",
        "timetable",
        "speed",
        "link",
        "availability",
        "method",
    )
}


_registrations = [0]


def registrations() -> int:
    """How many kinds were registered so far: what is derived from the families is stale when this has grown."""
    return _registrations[0]


def register(family: str, factory: F) -> F:
    """The factory, whose name becomes a `kind` of the family.

    Args:
      family: one of `FAMILIES`.
      factory: with an annotation for every parameter: its signature is the schema.

    Raises:
      RegistrationError: for a parameter without annotation, or a name that another module has taken.
    """
    name = factory.__name__
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.annotation is inspect.Parameter.empty:
            raise RegistrationError(
                f"{family} {name}: hyper-parameter '{parameter.name}' needs a type annotation"
            )
    known = FAMILIES[family].get(name)
    if known is not None and known.__module__ != factory.__module__:
        raise RegistrationError(f"{family} '{name}' is already defined in {known.__module__}")
    FAMILIES[family][name] = factory
    if known is None or inspect.isfunction(
        known
    ):  # else it was known before its module was imported
        _registrations[0] += 1
    return factory


ALIASES: dict[str, str] = {}  # a paper's name -> ours, where it is unambiguous


def alias(**names: str) -> None:
    """Other names of kinds: `alias(nnm="mix_neighbours")`."""
    ALIASES.update(names)


def named(kinds: list[str]) -> list[str]:
    """Names of links by their kinds; a kind that stands twice gets a number.

    >>> named(["rotation", "label_noise", "rotation"])
    ['rotation', 'label_noise', 'rotation[1]']
    """
    counts = [kinds[:i].count(kind) for i, kind in enumerate(kinds)]
    return [f"{kind}[{n}]" if n else kind for kind, n in zip(kinds, counts, strict=True)]


def tag_of(name: str) -> int:
    """The number of a link's random stream: another link before it does not disturb it."""
    return zlib.crc32(name.encode())
