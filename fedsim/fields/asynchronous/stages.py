"""The stages of asynchronous schedules: before the rule, and behind it."""

from collections.abc import Callable
from typing import Any

import jax

from fedsim.tree import Tree
from fedsim.types import AggregateStage, Context, Result, RowStage, Updates


def discount(factor: Callable[[Any], Any]) -> RowStage:
    """Δ_i ← s(τ_i) Δ_i, where the age τ_i is the server's steps since it sent the start model.

    Args:
      factor: s, the factor as a function of the age.
    """

    def apply(updates: Updates, context: Context) -> Updates:
        del context
        s = factor(updates.age)
        return updates._replace(delta=jax.tree.map(lambda x: x * s.astype(x.dtype), updates.delta))

    return RowStage(apply=apply, name="discount")


def mixing() -> AggregateStage:
    """Δ ← α_τ (Δ + x_start − x): the step to (1 − α_τ) x + α_τ y with the client's model y.

    The client's model is y = x_start + Δ, where it started from x_start.
    """

    def apply(aggregate: Tree, state: Tree, context: Context) -> Result:
        assert context.mixing is not None
        params, share = context.mixing
        move = lambda delta, start, x: share.astype(x.dtype) * (delta + (start - x))
        return jax.tree.map(move, aggregate, params, context.shared["params"]), state, {}

    return AggregateStage(apply, name="mixing")
