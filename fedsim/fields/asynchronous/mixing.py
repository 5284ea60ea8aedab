"""Mixing of a client's model into the server's, for schedules with one message per step."""

import jax

from fedsim.tree import Tree
from fedsim.types import AggregateStage, Context, Result


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
