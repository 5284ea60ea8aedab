"""Sections of a checked scenario -> what their factories make."""

import functools
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pydantic import BaseModel

from fedsim.compose import FAMILIES, scheduled
from fedsim.compose.shapes import ContractError
from fedsim.errors import (
    DataError,
    LinkError,
    OrderError,
    OutOfMemoryError,
    PartitionError,
    ScenarioError,
)
from fedsim.kinds.shipped import is_server_links
from fedsim.scenario.order import index_of_rule
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.sections import sections_within
from fedsim.types import AggregateStage, ServerLinks


class Link(NamedTuple):
    """A link of a scenario."""

    path: KeyPath  # of its section
    section: Any
    made: Any  # what its factory returned; `problems.UNKNOWN` where it was refused


def factory_of(section: Any) -> Callable:
    """Return a section's factory with its hyper-parameters filled in.

    Keys that the factory has no parameter for, which all sections of the family share, are left
    out. What the factory raises against its hyper-parameters becomes a `LinkError`; errors about
    samples stay what they are.
    """
    factory = FAMILIES[section.family][section.kind]
    values = _hyper_parameters(factory, section)
    if isinstance(values.get("lr"), BaseModel):
        filled = partial(_scheduled_optimizer, factory, values)
    else:
        filled = partial(factory, **values)

    @functools.wraps(factory)
    def make(*arguments: Any, **options: Any) -> Any:
        try:
            return filled(*arguments, **options)
        except (DataError, PartitionError, ContractError):
            raise
        except MemoryError as error:
            text = f"{_memory_problem(error)}; make it smaller"
            raise LinkError(text, section, large=True) from error
        except (ValueError, ArithmeticError) as error:
            raise LinkError(f"{section.kind}: {_first_line(error)}", section) from error

    return make


def _hyper_parameters(factory: Callable, section: Any) -> dict[str, Any]:
    """The keys of a section that are parameters of its factory; sections of links as links."""
    values = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        if name not in type(section).model_fields:
            continue
        value = getattr(section, name)
        if is_server_links(parameter.annotation) and value is not None:
            values[name] = _server_links(section, name)
        elif getattr(value, "family", "") in ("codec", "rule"):
            values[name] = factory_of(value)()
        else:
            values[name] = value
    return values


def links_at(path: KeyPath, links: Any) -> list[tuple[KeyPath, Any]]:
    """Return (path, section) of a key that is one link, a list of them, or None."""
    if links is None:
        return []
    if not isinstance(links, list):
        return [(path, links)]
    return [((*path, i), section) for i, section in enumerate(links)]


def links_within(section: Any, name: str) -> list[Any]:
    """Return the sections of a key that is one link, a list of them, or None."""
    return [link for _, link in links_at((), getattr(section, name))]


def _server_links(section: Any, name: str) -> ServerLinks:
    """The links of a server that a key of a section lists."""
    try:
        return server_of(links_within(section, name))
    except OrderError as error:
        raise LinkError(f"{section.kind}: {name} {error}", section) from error


def _scheduled_optimizer(factory: Callable, values: dict[str, Any]) -> Any:
    """An optimizer whose learning rate follows the schedule that its key `lr` describes."""
    others = {name: value for name, value in values.items() if name != "lr"}
    optimizer = partial(inspect.unwrap(factory), **others)
    return scheduled(optimizer, factory_of(values["lr"])())


def _memory_problem(error: MemoryError) -> str:
    if isinstance(error, OutOfMemoryError):
        return str(error)
    return f"needs more memory than there is ({error})"


def _first_line(error: Exception) -> str:
    """The first line of an error's text, without quotes; its type where it has none."""
    lines = str(error).strip("'\" \n").splitlines()
    return lines[0] if lines else type(error).__name__


def located(scenario: Any, error: LinkError) -> ScenarioError:
    """Return the refusal of a link as an error at the path of its section."""
    path: KeyPath = ()
    for section_path, section in sections_within(scenario.spec):
        if section is error.section:
            path = section_path
            break

    refusal = scenario.too_large if error.large else scenario.error
    located_error = refusal(path, str(error))
    located_error.__cause__ = error
    return located_error


def locate_link_errors(make: Callable) -> Callable:
    """Decorator for functions of a scenario: their `LinkError`s become `ScenarioError`s.

    The error has the path of the section that was refused.
    """

    @functools.wraps(make)
    def locating(scenario: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return make(scenario, *arguments, **options)
        except LinkError as error:
            raise located(scenario, error) from error

    return locating


def server_of(sections: Sequence[Any]) -> ServerLinks:
    """Make a server list: stages, exactly one rule, steps on the aggregate, optimisers.

    Raises:
      OrderError: for any other order.
    """
    rule_index = index_of_rule(sections)
    made = [factory_of(section)() for section in sections]
    return split_at_rule(made, rule_index)


def split_at_rule(made: Sequence[Any], rule_index: int) -> ServerLinks:
    """Return what the links of a server list made, by what it does."""
    behind = made[rule_index + 1 :]
    steps = [link for link in behind if isinstance(link, AggregateStage)]
    return ServerLinks(
        stages=list(made[:rule_index]),
        rule=made[rule_index],
        steps=steps,
        optimisers=list(behind[len(steps) :]),
    )
