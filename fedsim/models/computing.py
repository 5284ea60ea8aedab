"""Models that compute in a float type of fewer bits than their parameters have."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedsim.types import Model


def computing_in(model: Model, dtype: str) -> Model:
    """Return a model that computes in another float type; parameters and outputs keep theirs.

    Parameters and samples are cast on their way in, outputs and features on their way out, and so
    is the gradient. Running statistics keep their type throughout.
    """

    def inside(values: Any) -> Any:
        return jax.tree.map(lambda leaf: _as_float(leaf, dtype), values)

    def outside(outputs: Any) -> Any:
        return jax.tree.map(lambda leaf: _as_float(leaf, jnp.result_type(float)), outputs)

    def seen(variables: Any) -> Any:
        return {**variables, "params": inside(variables["params"])}

    def apply(variables, x, *, mask=None, key=None, train=False):
        outputs, stats = model.apply(seen(variables), inside(x), mask=mask, key=key, train=train)
        return outside(outputs), stats

    features = model.features
    head = model.head
    return model._replace(
        apply=apply,
        features=features and (lambda variables, x: outside(features(seen(variables), inside(x)))),
        head=head and (lambda variables, h: outside(head(seen(variables), inside(h)))),
    )


def _as_float(leaf: Any, dtype: Any) -> Any:
    """An array of floats in another float type; anything else as it is."""
    is_floats = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
    return leaf.astype(dtype) if is_floats else leaf


def is_narrow(x: jax.Array) -> bool:
    """Whether numbers have fewer bits than float32: a chain of sums would round each of them."""
    return jnp.finfo(x.dtype).bits < 32


def widened(x: jax.Array) -> jax.Array:
    """Return numbers in float32 if they have fewer bits, for sums over many of them."""
    return x.astype(jnp.float32) if is_narrow(x) else x


def recomputed(block: Callable[..., Any], remat: bool) -> Callable[..., Any]:
    """Return a block of a network; where `remat`, its inner values are not kept for the gradient.

    They are computed once more when the gradient needs them, from what the block was given.
    `jax.checkpoint` means the same, but XLA's compiler for CPUs finds the values that are computed
    twice, and keeps them after all.

    Args:
      block: (params, ..., h) -> the next h, or a tuple that begins with it.
    """
    if not remat:
        return block

    @jax.custom_vjp
    def once_more(*given):
        return block(*given)

    def forward(*given):
        return block(*given), given

    def backward(given, gradient):
        *others, h = given
        # A sum that depends on the gradient: nothing can be computed before it is there.
        first = jax.tree.leaves(gradient)[0].ravel()[0]
        _, pull = jax.vjp(block, *others, h + 0 * first.astype(h.dtype))
        return pull(gradient)

    once_more.defvjp(forward, backward)
    return once_more
