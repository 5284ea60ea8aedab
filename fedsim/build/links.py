"""Checked sections -> what their factories make."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel

from fedsim.compose import FAMILIES, scheduled
from fedsim.errors import DataError, LinkError, PartitionError, TooLarge
from fedsim.scenario.order import demand_order
from fedsim.types import RowStage, Rule, Stage


def link(section: Any) -> Callable:
    """A link's factory with its own hyper-parameters filled in (those of the section's common part left out).

    What it raises against them is a `LinkError`; faults of samples stay what they are.
    """
    factory = FAMILIES[section.family][section.kind]
    names = [n for n in inspect.signature(factory).parameters if n in type(section).model_fields]
    values = {name: getattr(section, name) for name in names}
    filled = partial(factory, **values)
    if isinstance(rate := values.pop("lr", None), BaseModel):  # an optimizer's, by a schedule
        filled = lambda: scheduled(partial(inspect.unwrap(factory), **values), link(rate)())

    @functools.wraps(factory)
    def make(*arguments: Any, **more: Any) -> Any:
        try:
            return filled(*arguments, **more)
        except (DataError, PartitionError):
            raise
        except MemoryError as error:
            what = str(error) if isinstance(error, TooLarge) else f"needs more memory than there is ({error})"
            raise LinkError(f"{what}; make it smaller", section, large=True) from error
        except (ValueError, ArithmeticError) as error:
            raise LinkError(f"{section.kind}: {_first_line(error)}", section) from error

    return make


def _first_line(error: Exception) -> str:
    lines = str(error).strip("'\" \n").splitlines()
    return lines[0] if lines else type(error).__name__


def placing_faults(make: Callable) -> Callable:
    """Decorator: hyper-parameters that a factory refuses are a line with their place in the scenario."""

    @functools.wraps(make)
    def placed(scenario: Any, *arguments: Any, **given: Any) -> Any:
        try:
            return make(scenario, *arguments, **given)
        except LinkError as error:
            refusal = scenario.too_large if error.large else scenario.error
            raise refusal(place_of(scenario.spec, error.section), str(error)) from error

    return placed


def place_of(spec: Any, section: Any, path: tuple = ()) -> tuple:
    """The path of a section in a scenario, or the empty one."""
    return next((path for path, found in _within(spec, path) if found is section), ())


def _within(value: Any, path: tuple) -> Iterator[tuple[tuple, Any]]:
    if isinstance(value, BaseModel):
        yield path, value
        for name in type(value).model_fields:
            yield from _within(getattr(value, name), (*path, name))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _within(item, (*path, i))


def stages_of(sections: Sequence[Any]) -> list[Stage | RowStage]:
    """A list of attacks and stages."""
    return [link(section)() for section in sections]


def server_of(sections: Sequence[Any]) -> tuple[list[Stage | RowStage], Rule, list[Any]]:
    """A server list: stages, exactly one rule, optimisers.

    Raises:
      OrderError: for any other order.
    """
    at = demand_order(sections)
    made = [link(section)() for section in sections]
    return made[:at], made[at], made[at + 1 :]
