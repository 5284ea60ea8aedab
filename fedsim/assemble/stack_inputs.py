"""What a Python caller passes to `fedsim.aggregate` and `fedsim.transmit`, checked."""

import functools
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from jax.tree_util import Partial
from pydantic import BaseModel, ValidationError

from fedsim.errors import Problem, ScenarioError
from fedsim.scenario.diagnostics import problems_of
from fedsim.scenario.reader import Document
from fedsim.scenario.schema import adapter_of
from fedsim.scenario.sections import LISTS_OF_LINKS
from fedsim.scenario.shorthand import expand_calls
from fedsim.tree import Tree
from fedsim.types import ServerLoss


def argument_error(command: str, argument: str, text: str) -> ScenarioError:
    """Return what is wrong with an argument of a public function as an error."""
    return ScenarioError([Problem(argument, text)], command)


def weights_of(command: str, weights: Any, K: int) -> np.ndarray:
    """Return the sample counts of K rows, 1 each where none are given."""
    if weights is None:
        return np.ones(K)
    counts = _numbers(command, "weights", weights)
    if counts.shape != (K,):
        text = f"{K} rows need {K} weights, found shape {list(counts.shape)}"
        raise argument_error(command, "weights", text)
    bad = np.flatnonzero(~(np.isfinite(counts) & (counts >= 0)))
    if len(bad):
        row = bad[0]
        text = f"the weight of row {row} is {counts[row]}; sample counts are finite and at least 0"
        raise argument_error(command, "weights", text)
    return counts


def _numbers(command: str, argument: str, values: Any) -> np.ndarray:
    """Return what a caller passed for the rows in float64."""
    try:
        return np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise argument_error(command, argument, f"are not numbers: {error}") from None


def mask_of(malicious: Any, K: int) -> np.ndarray:
    """Return the mask `[K]` of the rows that an attack controls, of a mask or row numbers."""
    given = np.asarray([] if malicious is None else malicious)
    if given.dtype == bool:
        if given.shape != (K,):
            text = f"a mask of {K} rows has {K} values, found shape {list(given.shape)}"
            raise argument_error("transmit", "malicious", text)
        return given

    mask = np.zeros(K, bool)
    if given.size:
        is_integer = given.dtype.kind in "iu"
        if not (is_integer and given.min() >= 0 and given.max() < K):
            text = f"rows are 0 to {K - 1}, found {given.tolist()}"
            raise argument_error("transmit", "malicious", text)
        mask[given] = True
    return mask


def losses_of(loss: Any, K: int) -> np.ndarray | None:
    """Return the losses of K rows, if there are any."""
    if loss is None:
        return None
    losses = _numbers("aggregate", "loss", loss)
    if losses.shape != (K,):
        text = f"{K} rows need {K} losses, found shape {list(losses.shape)}"
        raise argument_error("aggregate", "loss", text)
    return losses


@functools.lru_cache(64)
def as_server_loss(loss: Callable[[Tree], Any] | None) -> ServerLoss | None:
    """Return a function of the parameters alone as `Context.server_loss`; None for None.

    Which samples it is over is up to the function.
    """
    if loss is None:
        return None

    def of_params(params: Tree, batch: int | None = None, key: Any = None) -> Any:
        del batch, key
        value = loss(params)
        if np.shape(value):
            text = f"must return a number; it returned shape {list(np.shape(value))}"
            raise argument_error("aggregate", "server_loss", text)
        return value

    return Partial(of_params)


def checked_links(command: str, section: str, argument: str, links: Any) -> list[BaseModel]:
    """Return a kind, a link or a list of links as the checked sections of a list."""
    listed = [links] if isinstance(links, str | dict) else list(links)
    return checked(command, argument, listed, LISTS_OF_LINKS[section])


def checked(command: str, argument: str, value: Any, annotation: Any) -> Any:
    """Return a value of a scenario as the schema reads it."""
    may_have_calls = "(" in str(value)  # most values have none, and looking for them takes time
    expanded = expand_calls(value, annotation) if may_have_calls else value
    try:
        return adapter_of(annotation).validate_python(expanded)
    except ValidationError as error:
        document = Document({argument: expanded}, {}, command)
        problems = problems_of(document, annotation, expanded, error.errors(), (argument,))
        raise ScenarioError(problems, command) from None


def require_whole(command: str, argument: str, number: Any, least: int) -> None:
    """Refuse what is no integer of at least `least`."""
    if not isinstance(number, Integral) or isinstance(number, bool) or number < least:
        text = f"should be an integer of at least {least}, found {number!r}"
        raise argument_error(command, argument, text)
