"""How a function becomes a kind: every family is a dictionary from name to annotated factory."""

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
        "loss",
        "adapter",
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
        "mechanism",
        "metric",
        "topology",
        "method",
    )
}


_registrations = [0]  # a list, so that functions can change it


def registrations() -> int:
    """Return how many kinds were registered so far.

    What was derived from the families is stale once this number has grown.
    """
    return _registrations[0]


def register(family: str, factory: F) -> F:
    """Make a factory's name a `kind` of a family, and return the factory.

    Args:
      family: one of `FAMILIES`.
      factory: with an annotation for every parameter: its signature is the schema.

    Raises:
      RegistrationError: for a parameter without annotation, or a name that another module has
        taken.
    """
    name = factory.__name__
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.annotation is inspect.Parameter.empty:
            text = f"hyper-parameter '{parameter.name}' needs a type annotation"
            if parameter.default is inspect.Parameter.empty:
                text += "; if it is data, it belongs to the function that the factory returns"
            raise RegistrationError(f"{family} {name}: {text}")

    before = FAMILIES[family].get(name)
    if before is not None and before.__module__ != factory.__module__:
        raise RegistrationError(f"{family} '{name}' is already defined in {before.__module__}")
    FAMILIES[family][name] = factory

    # A `Shipped` described the kind before its module was imported: nothing is new.
    if before is None or inspect.isfunction(before):
        _registrations[0] += 1
    return factory


ALIASES: dict[str, str] = {}  # a paper's name -> ours, where it is unambiguous


def alias(**names: str) -> None:
    """Register other names of kinds: `alias(nnm="mix_neighbours")`."""
    ALIASES.update(names)


def unique_names(kinds: list[str]) -> list[str]:
    """Return the names of links by their kinds; a repeated kind gets a number.

    >>> unique_names(["rotation", "label_noise", "rotation"])
    ['rotation', 'label_noise', 'rotation[1]']
    """
    names = []
    for i, kind in enumerate(kinds):
        repeat = kinds[:i].count(kind)
        names.append(f"{kind}[{repeat}]" if repeat else kind)
    return names


def tag_of(name: str) -> int:
    """Return the number of a link's random stream, which other links do not disturb."""
    return zlib.crc32(name.encode())
