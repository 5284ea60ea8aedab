"""A module of torch as a model.

Samples and outputs are those of any model; images `[H, W, C]`, which core and data have with their
channels last, are given to the module as `[C, H, W]`, turned inside the program.
"""

# torch may be missing where types are checked
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.fields.torch.program import evaluated
from fedsim.models.modules import Origin
from fedsim.types import Model

ROWS = 11  # of a batch by which it is seen what a module does; few axes are as long
IMAGE_AXES = 3  # of one sample


def wrapped(module: Any, make: Callable, example: Callable | None) -> Model:
    """Return a module of torch as a model.

    Leaves are named as in `state_dict`. Floats that training changes, such as running averages, are
    `stats`; all other buffers are constants. Parameters without `requires_grad` are frozen.

    Args:
      module: the module.
      make: key -> such a module with start values.
      example: makes a batch of one sample; None: the samples' shape is unknown.

    Raises:
      ValueError: without an example, and for a module that cannot be exported.
    """
    from fedsim.fields.torch.export import exported, graph_of, numpy_of, program_of
    from fedsim.fields.torch.rows import mixes_rows

    if example is None:
        text = "a torch module needs a sample; give as_model(..., shape=) its shape"
        raise ValueError(f"model: {text} without the batch")

    first_name: dict[int, str] = {}
    canonical = {}  # a tied weight has several names, and is one leaf
    for name, parameter in module.named_parameters(remove_duplicate=False):
        canonical[name] = first_name.setdefault(id(parameter), name)
    parameters = dict(module.named_parameters())
    buffers = dict(module.named_buffers())

    @cache
    def program(shape, dtype, floats, train):
        return exported(module, shape, dtype, floats, train)

    # What a module changes does not depend on the type of its floats.
    sample = module_batch(module, jax.eval_shape(example))
    batch = ((ROWS, *sample.shape[1:]), sample.dtype, jnp.result_type(float))
    trained = graph_of(module, *batch, train=True)
    moved = program_of(trained).moved
    states = [name for name in moved if buffers[name].is_floating_point()]
    constants = {name: numpy_of(buffers[name]) for name in buffers if name not in states}
    names = (*parameters, *states)

    def values_of(made):
        own = {**dict(made.named_parameters()), **dict(made.named_buffers())}
        return [numpy_of(own[name]) for name in names]

    draw = _drawing(module, make, values_of)

    def init(key):
        leaves = dict(zip(names, draw(key), strict=True))
        return {
            "params": nested({name: leaves[name] for name in parameters}),
            "stats": nested({name: leaves[name] for name in states}),
        }

    def apply(variables, x, *, mask=None, key=None, train=False):
        params = flat(variables["params"])
        stats = flat(variables["stats"])
        floats = jnp.result_type(*params.values(), *stats.values()) if params else x.dtype
        x = module_batch(module, x)
        compiled = program(x.shape, x.dtype, floats, train)

        values = {name: params[first] for name, first in canonical.items()}
        fixed = {name: _of_type(value, floats) for name, value in constants.items()}
        outputs, moved = evaluated(compiled, values, {**fixed, **stats}, x, mask, key)
        if not train:
            return outputs, variables["stats"]
        return outputs, nested({name: moved[name] for name in stats})

    origin = Origin(
        module,
        frozen=tuple(name for name in parameters if not parameters[name].requires_grad),
        ignored=tuple(name for name in module.state_dict() if name not in names),
    )
    return Model(
        init=init,
        apply=apply,
        mixes_rows=mixes_rows(module, trained, *batch),
        origin=origin,
    )


def _drawing(module: Any, make: Callable, values_of: Callable) -> Callable:
    """What draws start values: key -> a list of them.

    Those of a module are its own. A function that makes modules is called once for every key, with
    torch's generator seeded by it.
    """
    start = [jnp.asarray(value) for value in values_of(module)]
    if make(jax.random.key(0)) is module:
        return lambda key: start

    import torch

    shapes = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in start]

    def drawn(bits):
        with torch.random.fork_rng():
            torch.manual_seed(int(bits))
            values = values_of(make(None))
        return [np.asarray(v, s.dtype) for v, s in zip(values, shapes, strict=True)]

    def draw(key):
        return jax.pure_callback(drawn, shapes, jax.random.bits(key), vmap_method="sequential")

    return draw


def module_batch(module: Any, x: Any) -> Any:
    """Return a batch as a module takes it, or its shape.

    Images `[B, H, W, C]` become `[B, C, H, W]`, and `[B, H, W]` before a convolution of images
    `[B, 1, H, W]`.
    """
    if isinstance(x, jax.ShapeDtypeStruct):
        return jax.eval_shape(lambda x: module_batch(module, x), x)
    axes = x.ndim - 1
    if axes == IMAGE_AXES:
        return jnp.moveaxis(x, -1, 1)
    if axes == IMAGE_AXES - 1 and _convolves_images(module):
        return x[:, None]
    return x


def _convolves_images(module: Any) -> bool:
    from torch import nn

    return any(isinstance(part, nn.Conv2d) for part in module.modules())


def _of_type(value: Any, floats: Any) -> Any:
    """A constant; floats in the type of the model."""
    return jnp.asarray(value, floats if value.dtype.kind == "f" else None)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by the names of `state_dict` as a tree, whose leaves have these names."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        *path, last = name.split(".")
        inner = result
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return result


def flat(values: Any) -> dict[str, Any]:
    """Return a tree's leaves by name."""
    return dict(zip(tree.leaf_names(values), jax.tree.leaves(values), strict=True))
