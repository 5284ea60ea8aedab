"""A bound on the length of each update that follows a quantile of the lengths."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le

from fedsim import tree
from fedsim.compose import stage
from fedsim.types import Context, RowStage, Updates


@stage
def adaptive_clip(
    quantile: Annotated[float, Ge(0), Le(1)] = 0.5,
    lr: Annotated[float, Gt(0)] = 0.2,
    initial: Annotated[float, Gt(0)] = 0.1,
) -> RowStage:
    """Shortens updates that are longer than a bound, which follows a quantile of the lengths.

    x_i ← x_i · min(1, C / ‖x_i‖₂), with the norm over the whole tree; after the round
    C ← C · exp(−η_C (b̄ − γ)), where b̄ is the share of the updates that arrived with ‖x_i‖₂ ≤ C. A
    round in which nothing arrived does not change C.

    Resists: large updates, without a guessed bound; not many small ones that agree.
    Cost: O(D) per client.
    Needs: one row at a time.

    Reports: `adaptive_clip/norm`, the C of the round, and `adaptive_clip/unclipped`, b̄.

    Args:
      quantile: γ, the share of updates that should pass unchanged.
      lr: η_C.
      initial: C in the first round.

    References:
      Andrew, Thakkar, McMahan, Ramaswamy 2021, Differentially Private Learning with Adaptive
      Clipping, arXiv:1905.03871 (there with noise on b̄).
    """

    def init(params, present):
        del present
        return jnp.asarray(initial, jax.tree.leaves(params)[0].dtype)

    def apply(updates: Updates, context: Context) -> Updates:
        return updates._replace(delta=tree.clipped(updates.delta, context.state))

    def measure(updates: Updates, context: Context):
        scale, rest = tree.scaled_norm(updates.delta)
        within = scale * rest <= context.state
        return {"norm": context.state, "unclipped": within.astype(context.state.dtype)}

    def after(norm, info):
        return norm * jnp.exp(-lr * (info["unclipped"] - quantile)).astype(norm.dtype)

    return RowStage(apply=apply, init=init, measure=measure, after=after)
