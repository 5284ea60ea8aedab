"""Which fields have a say in how a scenario is checked and built."""

import functools
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeVar

from fedsim.engine.forms import OneModel
from fedsim.field import Alteration, Field
from fedsim.fleet import Plan
from fedsim.installed import added, module_of
from fedsim.types import Client, Shared

T = TypeVar("T")


@functools.cache
def fields() -> dict[str, Field]:
    """Return package -> what each installed field adds, in the order in which they are asked."""
    return {package: module_of(package, module).FIELD for package, module in added("FIELD")}


def first_answer(ask: Callable[[Field], T | None]) -> T | None:
    """Return the first answer of a field that is not None; None where no field has one."""
    for field in fields().values():
        answer = ask(field)
        if answer is not None:
            return answer
    return None


def of_all(ask: Callable[[Field], Iterable[T]]) -> list[T]:
    """Return what all fields have, in one list."""
    return list(chain(*map(ask, fields().values())))


def alterations() -> list[Alteration]:
    """Return how fields change the samples, in this order."""
    changes = (field.alteration for field in fields().values())
    return [change for change in changes if change is not None]


def form_of(client: Client, plan: Plan, initial: Shared) -> OneModel:
    """Return the form of a run's server; arguments as of `Field.form`."""
    found = first_answer(lambda field: field.form(client, plan, initial))
    return found or OneModel()
