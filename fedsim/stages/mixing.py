"""The client's model is mixed into the server's: what a schedule of one message a step puts before the optimisers."""

import jax

from fedsim.tree import Tree
from fedsim.types import AggregateStage, Context, Result


def mixing() -> AggregateStage:
    """Δ ← α_τ (Δ + x_start − x): the step to (1 − α_τ) x + α_τ y, where y is Δ behind the model that the client was given."""

    def apply(aggregate: Tree, state: Tree, context: Context) -> Result:
        assert context.flown is not None
        params, share = context.flown
        move = lambda delta, start, x: share.astype(x.dtype) * (delta + (start - x))
        return jax.tree.map(move, aggregate, params, context.shared["params"]), state, {}

    return AggregateStage(apply, name="mixing")
