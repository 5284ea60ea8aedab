"""The weights that a model starts from: a safetensors file that `model.weights` names."""

import functools
from typing import Any

import jax
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from fedsim.assemble.data_files import data_file, resolved_file
from fedsim.assemble.programs import MAX_CACHED
from fedsim.errors import DataError, ScenarioError
from fedsim.installed import added, module_of
from fedsim.models.starting import Values, misfits, placed, starting_from, values_by_leaf
from fedsim.models.torch_layers import of_torch
from fedsim.scenario.diagnostics import problem_at
from fedsim.scenario.named_files import MODEL, WEIGHTS
from fedsim.scenario.scenario import Scenario
from fedsim.sources import sha256_of_data
from fedsim.sources.files import opened, require_content
from fedsim.types import Model

Names = tuple[tuple[str, str], ...]
"""Pairs of `model.weights.names`."""


def with_weights(scenario: Scenario, net: Model, sample: tuple[int, ...]) -> Model:
    """Return the model as it starts from the weights that the scenario names, if it names some.

    Args:
      scenario: which may name a file.
      net: the model.
      sample: shape of what it reads.

    Raises:
      ScenarioError: where there is no such file, or it is not a model, and for tensors and names
        that do not fit the model, a line for each.
    """
    weights = scenario.spec.model.weights
    if weights is None:
        return net
    path = data_file(scenario, WEIGHTS)
    try:
        sha256 = sha256_of_data(path)
        if weights.sha256 not in (None, sha256):
            raise DataError(f"{path}: SHA-256 is {sha256}, not {weights.sha256}")
        names = tuple(weights.names.items())
        shapes = jax.eval_shape(net.init, jax.random.key(0))
        values = _values_for(shapes, sample, str(path), sha256, names)
    except DataError as error:
        raise scenario.error(WEIGHTS, str(error)) from None

    lines = list(misfits(shapes, values, net.origin.ignored if net.origin else ()))
    if lines:
        problems = [problem_at(scenario.document, WEIGHTS, line) for line in lines]
        raise ScenarioError(problems, scenario.document.file)
    return _started(net, sample, str(path), sha256, names)


def resolved_model(scenario: Scenario, section: Any) -> Any:
    """Return the model section with the paths and the hashes of its file and of its weights."""
    resolved: dict[str, Any] = dict(resolved_file(scenario, MODEL))
    if section.weights is not None:
        file = resolved_file(scenario, WEIGHTS)
        resolved["weights"] = section.weights.model_copy(update=file)
    return section.model_copy(update=resolved)


@functools.lru_cache(MAX_CACHED)
def _started(net: Model, sample: tuple[int, ...], path: str, sha256: str, names: Names) -> Model:
    """A model that starts from a file; cached, so that it is compiled once."""
    shapes = jax.eval_shape(net.init, jax.random.key(0))
    return starting_from(net, _values_for(shapes, sample, path, sha256, names))


def _values_for(
    shapes: Any, sample: tuple[int, ...], path: str, sha256: str, names: Names
) -> Values:
    """The tensors of a file as values of a model's leaves.

    Raises:
      DataError: as `_values_in` does, and for names that do not fit.
    """
    values = _values_in(path, sha256)
    if names:
        values = of_torch(values, dict(names), shapes, sample)
    return placed(shapes, values)


@functools.lru_cache(1)
def _values_in(path: str, sha256: str) -> Values:
    """The tensors of a file by section and leaf.

    Raises:
      DataError: for a file that is not safetensors, or has types that NumPy lacks.
    """
    with opened(path, sha256) as file:
        require_content(file)
        for package, endings in added("WEIGHTS"):
            for ending in endings:
                if path.endswith(ending):
                    content = module_of(package, endings[ending]).tensors(file.read())
                    return values_by_leaf(content)
        try:
            tensors = safetensors.load(file.read())
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            reason = ascii(str(error))[1:-1][:200]
            raise DataError(f"is not a safetensors file of floats: {reason}") from None
    return values_by_leaf(tensors)
