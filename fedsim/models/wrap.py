"""Other people's models in the form of ours."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedsim.compose.shapes import ContractError, reported, require_like, require_parts
from fedsim.models import modules
from fedsim.types import Model


def as_model(
    init: Any,
    apply: Callable[..., Any] | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    classes: int = 0,
    targets: int = 0,
    labels: int = 0,
    tokens: bool = False,
) -> Model:
    """Any network as a `Model`: plain functions, a Flax (linen, nnx) or an Equinox module. No library is imported for it.

    Plain functions are `init(key) -> params` and `apply(params, x) -> outputs [B, ...]`. An `init` with two arguments
    also gets a batch of one sample, and an `apply` whose signature has `mask`, `key` or `train` (or `training`,
    `deterministic`, `use_running_average`) gets those by name; so do modules. Linen's mutable collections and
    nnx's other variables go to `stats` and are updated while training. Equinox modules are written for one sample and
    are vmapped. Floats take the type of the run.

    nnx and Equinox modules bring their parameters, so every seed starts from them; a function `key -> module` in their
    place draws new ones for each seed.

    Args:
      init: the first function, or a pair `(init, apply)`, an object with both as attributes, a module, a function
        `key -> module`, or a `Model`.
      apply: the second function.
      shape: shape of one sample, without the batch; linen modules and `init(key, x)` need it.
      classes: classes in the data, 0 = unknown; fewer outputs than that are an error.
      targets: numbers per regression target, 0 = unknown; another number of outputs is an error.
      labels: of every sample, where its tokens have one each: outputs are `[B, labels, classes]`.
      tokens: whether samples are integers.

    Returns:
      A `Model`: `init(key) -> variables` and `apply(variables, x, mask=, key=, train=) -> (outputs, stats)`, where
      `variables` is `{"params": ..., "stats": ...}`.

    Raises:
      TypeError: when no form fits, or for a class in place of an object of it.
      ValueError: for a missing `shape`; when traced, for outputs that do not fit the batch or the data.

    >>> model = as_model(lambda key: jnp.zeros((4, 2)), lambda params, x: x @ params)
    >>> model.init(jax.random.key(0))["params"].shape
    (4, 2)
    """
    if isinstance(init, type) and apply is None:
        raise TypeError(
            f"model: {init.__name__} is a class; give an object of it, model={init.__name__}(...)"
        )
    if isinstance(init, Model):
        return _checked(init, classes, targets, labels)
    example = (
        None if shape is None else lambda: jnp.zeros((1, *shape), jnp.int32 if tokens else None)
    )
    model = modules.wrapped(init, example) if apply is None else None
    if model is None:
        model = _plain(*(_pair(init) if apply is None else (init, apply)), example)
    return _checked(_in_one_type(model), classes, targets, labels)


def _pair(model: Any) -> tuple[Callable, Callable]:
    if isinstance(model, tuple) and len(model) == 2 and all(callable(part) for part in model):
        return model[0], model[1]
    init, apply = getattr(model, "init", None), getattr(model, "apply", None)
    if callable(init) and callable(apply):
        return init, apply
    raise TypeError(
        f"model: {type(model).__name__} is no Model, no pair (init, apply), has no .init and .apply, and is no Flax or "
        "Equinox module; see fedsim.as_model"
    )


def _plain(init: Callable, apply: Callable, example: Callable | None) -> Model:
    needs_sample = modules.required(init) >= 2
    if needs_sample and example is None:
        raise ValueError(
            "model: init(key, x) needs a sample; give as_model(..., shape=) its shape without the batch"
        )
    names = modules.asked(apply, 2)

    def wrapped_init(key):
        return {"params": init(key, example()) if needs_sample else init(key), "stats": {}}  # pyright: ignore

    def wrapped_apply(variables, x, *, mask=None, key=None, train=False):
        return apply(variables["params"], x, **modules.given(names, mask, key, train)), variables[
            "stats"
        ]

    return Model(wrapped_init, wrapped_apply)


def _in_one_type(model: Model) -> Model:
    """Start values in the float type of the run, whatever the library's own default is."""

    def cast(leaf):
        leaf = jnp.asarray(leaf)
        return (
            leaf.astype(jnp.result_type(float))
            if jnp.issubdtype(leaf.dtype, jnp.floating)
            else leaf
        )

    return model._replace(init=lambda key: jax.tree.map(cast, model.init(key)))


def reading(model: Model, scale: float) -> Model:
    """A model for features as they are stored: it sees them as floats, times `scale`."""

    def floats(x):
        x = x.astype(jnp.result_type(float))
        return x if scale == 1.0 else x * jnp.asarray(scale, x.dtype)

    def apply(variables, x, **options):
        return model.apply(variables, floats(x), **options)

    features = model.features
    of_stored = None if features is None else lambda variables, x: features(variables, floats(x))
    return model._replace(apply=apply, features=of_stored)


def _checked(model: Model, classes: int, targets: int, labels: int) -> Model:
    """Outputs are checked when traced: their shapes are known then, and nothing is computed for it."""
    inner = model.apply

    def apply(variables, x, *, mask=None, key=None, train=False):
        returned = inner(variables, x, mask=mask, key=key, train=train)
        with reported("", "model: apply"):
            require_parts(returned, ("outputs", "stats"))
        outputs, stats = returned
        shape, text = getattr(outputs, "shape", None), ""
        if shape is None:
            raise ContractError(
                f"model: apply returned {type(outputs).__name__}, not one array of outputs"
            )
        if not shape or shape[0] != len(x):
            text = f" for a batch of {len(x)}; the first axis is the batch"
        elif classes and (
            len(shape) < 2 or shape[1:-1] != (labels,) * bool(labels) or shape[-1] < classes
        ):
            wanted = [len(x), *[labels] * bool(labels), classes]
            text = f"; the data have {classes} classes{' for every token' * bool(labels)}: {wanted}"
        elif targets and math.prod(shape[1:]) != targets:
            text = f"; a target of the data has {targets} numbers"
        if text:
            raise ContractError(f"model: apply returned outputs {shape}{text}")
        if train:
            with reported("", "model: apply"):
                require_like(stats, variables["stats"], "the start", "stats")
        return outputs, stats

    return model._replace(apply=apply)
