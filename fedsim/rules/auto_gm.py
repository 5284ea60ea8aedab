"""Auto-weighted geometric median: clients far from it lose their weight in it."""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
from annotated_types import Gt
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.geometric_median import weiszfeld
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(autogm="auto_gm")
MOST_ITERATIONS = 100


class Search(NamedTuple):
    """The weights, on their way."""

    share: Float[Array, " K"]
    moved: Float[Array, ""]  # the largest change of a weight
    iteration: Array


@rule
def auto_gm(lam: Annotated[float, Gt(0)] | None = None) -> Rule:
    """Geometric median whose weights are chosen with it, so that clients far away lose theirs.

    agg, α = argmin_{v, α} Σ_i α_i ‖v − x_i‖₂ + λ/2 ‖α‖₂²  with α ≥ 0 and Σ_i α_i = 1, by turns from equal weights: v is the
    weighted geometric median, and α_i = max(0, η − ‖v − x_i‖₂) / λ with the η for which they sum to 1. Clients beyond η
    have no weight. Other software sorts the clients by their index where η is sought. Sample counts are ignored, and so
    are updates that are not finite.

    Resists: less than half of the clients.    Cost: O(K·D) per iteration of the medians, up to 100 of these.
    Needs: the whole stack.

    Args:
      lam: λ, in units of the updates: ∞ is the geometric median, and a small one ends at the client nearest to it; m if
        left out.

    References:
      Li et al. 2021, Byzantine-Robust Aggregation in Federated Learning Empowered Industrial IoT (AutoGM),
      doi:10.1109/TII.2021.3128164, Algorithm 1.

    >>> import fedsim
    >>> fedsim.aggregate({"kind": "auto_gm", "lam": 20.0}, [[0.0], [1.0], [3.0], [4.0], [90.0]]).tolist()
    [3.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        dtype = updates.samples.dtype
        m = jnp.sum(usable, dtype=dtype)
        penalty = m if lam is None else jnp.asarray(lam, dtype)

        def step(search: Search) -> Search:
            centre = weiszfeld(updates.delta, search.share, 0.0, None)
            share = nearest_shares(tree.norms(updates.delta, centre).astype(dtype), usable, penalty)
            return Search(share, jnp.max(jnp.abs(share - search.share)), search.iteration + 1)

        settled = 64 * float(jnp.finfo(dtype).eps)
        unfinished = lambda search: (search.moved > settled) & (search.iteration < MOST_ITERATIONS)
        equal = jnp.where(usable, 1 / jnp.maximum(m, 1), 0).astype(dtype)
        start = Search(equal, jnp.ones((), dtype), jnp.zeros((), jnp.int32))
        share = lax.while_loop(unfinished, step, start).share
        return (
            weiszfeld(updates.delta, share, 0.0, None),
            state,
            selected(share > 0, updates, context),
        )

    return Rule(apply=apply)


def nearest_shares(
    away: Float[Array, " K"], usable: Bool[Array, " K"], lam: Float[Array, ""]
) -> Float[Array, " K"]:
    """argmin_α Σ α_i d_i + λ/2 ‖α‖² over the simplex: of the sorted distances the first p count, as many as stay below η."""
    ordered = jnp.sort(jnp.where(usable, away, jnp.inf))
    p = jnp.arange(1, len(away) + 1, dtype=away.dtype)
    level = (jnp.cumsum(jnp.where(jnp.isfinite(ordered), ordered, 0)) + lam) / p
    last = jnp.sum(jnp.isfinite(ordered) & (level > ordered)) - 1
    return jnp.where(usable, jnp.maximum(level[jnp.maximum(last, 0)] - away, 0) / lam, 0)
