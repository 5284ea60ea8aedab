"""Sections of a checked scenario -> what their factories make."""

import functools
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pydantic import BaseModel

from fedsim.compose import FAMILIES, scheduled
from fedsim.compose.shapes import ContractError
from fedsim.errors import DataError, LinkError, PartitionError, ScenarioError, TooLarge
from fedsim.scenario.order import index_of_rule
from fedsim.scenario.sections import sections_within
from fedsim.types import AggregateStage, RowStage, Rule, Stage


def factory_of(section: Any) -> Callable:
    """A section's factory with its own hyper-parameters filled in (those of the section's common
    part left out).

    What it raises against them is a `LinkError`; errors of samples stay what they are.
    """
    factory = FAMILIES[section.family][section.kind]
    names = [n for n in inspect.signature(factory).parameters if n in type(section).model_fields]
    values = {name: _made(getattr(section, name)) for name in names}
    filled = partial(factory, **values)
    if isinstance(rate := values.pop("lr", None), BaseModel):  # an optimizer's, by a schedule
        filled = lambda: scheduled(partial(inspect.unwrap(factory), **values), factory_of(rate)())

    @functools.wraps(factory)
    def make(*arguments: Any, **options: Any) -> Any:
        try:
            return filled(*arguments, **options)
        except (DataError, PartitionError, ContractError):
            raise
        except MemoryError as error:
            text = (
                str(error)
                if isinstance(error, TooLarge)
                else f"needs more memory than there is ({error})"
            )
            raise LinkError(f"{text}; make it smaller", section, large=True) from error
        except (ValueError, ArithmeticError) as error:
            lines = str(error).strip("'\" \n").splitlines() or [type(error).__name__]
            raise LinkError(f"{section.kind}: {lines[0]}", section) from error

    return make


def _made(value: Any) -> Any:
    """A codec that another one is made of, from its section; anything else as it is."""
    return factory_of(value)() if getattr(value, "family", "") == "codec" else value


def located(scenario: Any, error: LinkError) -> ScenarioError:
    """A refusal with its place in the scenario."""
    refusal = scenario.too_large if error.large else scenario.error
    path = next(
        (path for path, other in sections_within(scenario.spec) if other is error.section), ()
    )
    located_error = refusal(path, str(error))
    located_error.__cause__ = error
    return located_error


def locate_link_errors(make: Callable) -> Callable:
    """Decorator for functions of a scenario: a `LinkError` becomes a `ScenarioError` with the place
    of its section.
    """

    @functools.wraps(make)
    def locating(scenario: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return make(scenario, *arguments, **options)
        except LinkError as error:
            raise located(scenario, error) from error

    return locating


class ServerLinks(NamedTuple):
    """What the factories of a server list make, by what it does in a round."""

    stages: list[Stage | RowStage]
    rule: Rule
    steps: list[AggregateStage]  # between rule and optimisers
    tail: list[Any]  # optimisers

    @staticmethod
    def of(made: Sequence[Any], at: int) -> "ServerLinks":
        """Links in their order, whose rule is number `at`."""
        steps = [link for link in made[at + 1 :] if isinstance(link, AggregateStage)]
        return ServerLinks(list(made[:at]), made[at], steps, list(made[at + 1 + len(steps) :]))


def server_of(sections: Sequence[Any]) -> ServerLinks:
    """A server list: stages, exactly one rule, steps on the aggregate, optimisers.

    Raises:
      OrderError: for any other order.
    """
    at = index_of_rule(sections)
    return ServerLinks.of([factory_of(section)() for section in sections], at)
