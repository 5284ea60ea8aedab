"""Other libraries' networks, and plain functions, as models."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedsim.compose.shapes import (
    ContractError,
    OutputsError,
    reported,
    require_like,
    require_parts,
)
from fedsim.models import modules
from fedsim.types import Model


class Outputs(NamedTuple):
    """What a model's outputs must fit, as `as_model` is told; 0: unknown."""

    classes: int
    targets: int
    labels: int


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
    """Return any network as a `Model`: plain functions, a Flax (linen, nnx) or an Equinox module.

    Plain functions are `init(key) -> params` and `apply(params, x) -> outputs [B, ...]`. An `init`
    with two arguments also gets a batch of one sample, and an `apply` whose signature has `mask`,
    `key` or `train` (or `training`, `deterministic`, `use_running_average`) gets those by name; so
    do modules. Linen's mutable collections, nnx's other variables and the state of an Equinox
    module go to `stats` and are updated while training: the server's floats are the mean of the
    clients', and its integers and truth values those of the first client. Equinox modules are
    written for one sample and are vmapped. Floats have the type of the run. No library is imported
    unless a module of it is given.

    nnx and Equinox modules bring their parameters, so that all seeds start from them; a function
    `key -> module` in their place draws new ones for each seed.

    Args:
      init: the first function, or a pair `(init, apply)`, an object with both as attributes, a
        module, the pair `(module, state)` of `eqx.nn.make_with_state`, a function `key -> module`
        (or `key -> (module, state)`), or a `Model`.
      apply: the second function.
      shape: shape of one sample, without the batch; linen modules and `init(key, x)` need it.
      classes: number of classes in the data, 0 = unknown; fewer outputs than that are an error.
      targets: numbers per regression target, 0 = unknown; another number of outputs is an error.
      labels: labels of every sample, if its tokens have one each: outputs are `[B, labels,
        classes]`.
      tokens: whether samples are integers.

    Returns:
      A `Model`: `init(key) -> variables` and `apply(variables, x, mask=, key=, train=) -> (outputs,
      stats)`, where `variables` is `{"params": ..., "stats": ...}`.

    Raises:
      TypeError: if no form fits, or for a class in place of an object of it.
      ValueError: for a missing `shape`; when traced, for outputs that do not fit the batch or the
        data.

    >>> model = as_model(lambda key: jnp.zeros((4, 2)), lambda params, x: x @ params)
    >>> model.init(jax.random.key(0))["params"].shape
    (4, 2)
    """
    if isinstance(init, type) and apply is None:
        raise TypeError(
            f"model: {init.__name__} is a class; give an object of it, model={init.__name__}(...)"
        )
    expected = Outputs(classes, targets, labels)
    if isinstance(init, Model):
        return _checked(_in_one_type(init), expected)

    example = None
    if shape is not None:
        dtype = jnp.int32 if tokens else None
        example = lambda: jnp.zeros((1, *shape), dtype)

    if apply is not None:
        model = _from_functions(init, apply, example)
    else:
        model = modules.wrapped(init, example)
        if model is None:
            model = _from_functions(*_pair(init), example)
    return _checked(_in_one_type(model), expected)


def _pair(model: Any) -> tuple[Callable, Callable]:
    """Return the functions `init` and `apply` of a pair, or of an object.

    Raises:
      TypeError: for anything else.
    """
    if isinstance(model, tuple) and len(model) == 2 and all(callable(part) for part in model):
        return model[0], model[1]
    init = getattr(model, "init", None)
    apply = getattr(model, "apply", None)
    if callable(init) and callable(apply):
        return init, apply
    raise TypeError(
        f"model: {type(model).__name__} is neither a Model nor a pair (init, apply), has no .init "
        "and .apply, and is not a Flax or Equinox module; see fedsim.as_model"
    )


def _from_functions(init: Callable, apply: Callable, example: Callable | None) -> Model:
    """Return plain functions as a model.

    Args:
      example: makes a batch of one sample; None: the samples' shape is unknown.
    """
    needs_sample = modules.required_arguments(init) >= 2
    if needs_sample and example is None:
        raise ValueError(
            "model: init(key, x) needs a sample; "
            "give as_model(..., shape=) its shape without the batch"
        )
    names = modules.accepted_names(apply, 2)

    def wrapped_init(key):
        params = init(key, example()) if needs_sample else init(key)  # pyright: ignore
        return {"params": params, "stats": {}}

    def wrapped_apply(variables, x, *, mask=None, key=None, train=False):
        options = modules.options_for(names, mask, key, train)
        return apply(variables["params"], x, **options), variables["stats"]

    return Model(wrapped_init, wrapped_apply)


def _in_one_type(model: Model) -> Model:
    """Return a model whose start values have the run's float type, not its library's default."""

    def cast(leaf):
        leaf = jnp.asarray(leaf)
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        return leaf.astype(jnp.result_type(float))

    return model._replace(init=lambda key: jax.tree.map(cast, model.init(key)))


def reading(model: Model, scale: float, channels_first: bool = False) -> Model:
    """Return a model for features as they are stored: it sees them as floats, times `scale`.

    With `channels_first`, it sees images `[B, H, W, C]` as `[B, C, H, W]`.
    """

    def seen(x):
        x = x.astype(jnp.result_type(float))
        x = x if scale == 1.0 else x * jnp.asarray(scale, x.dtype)
        return jnp.moveaxis(x, -1, 1) if channels_first else x

    def apply(variables, x, **options):
        return model.apply(variables, seen(x), **options)

    if model.features is None:
        return model._replace(apply=apply)
    features = model.features
    return model._replace(apply=apply, features=lambda variables, x: features(variables, seen(x)))


def _checked(model: Model, expected: Outputs) -> Model:
    """Return a model whose outputs are checked when it is traced, where their shapes are known."""
    unchecked = model.apply

    def apply(variables, x, *, mask=None, key=None, train=False):
        returned = unchecked(variables, x, mask=mask, key=key, train=train)
        with reported("", "model: apply"):
            require_parts(returned, ("outputs", "stats"))
        outputs, stats = returned

        shape = getattr(outputs, "shape", None)
        if shape is None:
            raise ContractError(
                f"model: apply returned {type(outputs).__name__}, not one array of outputs"
            )
        fault = _fault_of_shape(shape, len(x), expected)
        if fault:
            raise OutputsError(f"model: apply returned outputs {shape}{fault}")
        if train:
            with reported("", "model: apply"):
                require_like(stats, variables["stats"], "the start", "stats")
        return outputs, stats

    return model._replace(apply=apply)


def _fault_of_shape(shape: tuple[int, ...], batch: int, expected: Outputs) -> str:
    """Return why the outputs of a batch have the wrong shape; an empty string if they do not."""
    if not shape or shape[0] != batch:
        return f" for a batch of {batch}; the first axis is the batch"

    classes = expected.classes
    if classes:
        labels = (expected.labels,) if expected.labels else ()
        fits = len(shape) >= 2 and shape[1:-1] == labels and shape[-1] >= classes
        if not fits:
            each = " for every token" if labels else ""
            return f"; the data have {classes} classes{each}: {[batch, *labels, classes]}"

    if expected.targets and math.prod(shape[1:]) != expected.targets:
        noun = "number" if expected.targets == 1 else "numbers"
        return f"; a target of the data has {expected.targets} {noun}"
    return ""
