"""Models that start from given values, such as those of an earlier run."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.errors import nearest
from fedsim.types import Model

# Sections of a model file, which `fedsim run` writes as `params/layer0/W`: those that a model has,
# and one that belongs to the method.
SECTIONS = {"params": "params", "state": "stats"}
OTHERS = ("aux",)

Values = Mapping[tuple[str, str], np.ndarray]
"""(section of the variables, dotted name of the leaf) -> its values."""


def values_by_leaf(tensors: Mapping[str, np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
    """Return the tensors of a file by section and leaf.

    A file of fedsim names sections, as `params/layer0/W`. In any other file, all tensors are
    parameters: `layer0.W`, or `layer0/W`.
    """
    is_ours = all(name.split("/")[0] in (*SECTIONS, *OTHERS) for name in tensors)
    values = {}
    for name, tensor in tensors.items():
        if not is_ours:
            values["params", name.replace("/", ".")] = tensor
            continue
        section, _, leaf = name.partition("/")
        if section in SECTIONS:
            values[SECTIONS[section], leaf.replace("/", ".")] = tensor
    return values


def placed(variables: Any, values: Values) -> dict[tuple[str, str], np.ndarray]:
    """Return values in the sections that have leaves of these names.

    Other libraries write running averages beside parameters.
    """
    of_stats = set(tree.leaf_names(variables["stats"]))
    return {
        ("stats" if name in of_stats else section, name): tensor
        for (section, name), tensor in values.items()
    }


def misfits(variables: Any, values: Values, ignored: Iterable[str] = ()) -> Iterator[str]:
    """Yield a line for every leaf without values, and for all values that no leaf takes.

    Args:
      variables: the model's start variables, or their shapes.
      values: as `values_by_leaf` makes them. Statistics may be left out.
      ignored: names of tensors that need no leaf.
    """
    shapes = {}
    for section in SECTIONS.values():
        leaves = jax.tree.leaves(variables[section])
        for name, leaf in zip(tree.leaf_names(variables[section]), leaves, strict=True):
            shapes[section, name] = leaf.shape

    for key, shape in shapes.items():
        section, name = key
        if key not in values and section == "params":
            yield f"there is no tensor for {name} {list(shape)}"
        elif key in values and values[key].shape != shape:
            yield f"{name} is {list(values[key].shape)}, and that of the model is {list(shape)}"

    for key, tensor in values.items():
        section, name = key
        if key not in shapes and name not in ignored:
            near = nearest(name, [known for other, known in shapes if other == section])
            guess = f"; did you mean {near!r}?" if near else ""
            yield f"no leaf of the model is named {name!r} {list(tensor.shape)}{guess}"


def starting_from(model: Model, values: Values) -> Model:
    """Return a model that starts from values, whatever the key.

    Args:
      values: as `values_by_leaf` makes them, for every parameter, without `misfits`.
    """

    def init(key):
        variables = model.init(key)

        def started(section: str) -> Any:
            structure = jax.tree.structure(variables[section])
            leaves = jax.tree.leaves(variables[section])
            names = tree.leaf_names(variables[section])
            filled = []
            for name, leaf in zip(names, leaves, strict=True):
                value = values.get((section, name), leaf)
                filled.append(jnp.asarray(value, leaf.dtype))
            return jax.tree.unflatten(structure, filled)

        return {**variables, **{section: started(section) for section in SECTIONS.values()}}

    return model._replace(init=init)
