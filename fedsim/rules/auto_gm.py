"""Auto-weighted geometric median: clients far from the median lose their weight."""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
from annotated_types import Gt
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.geometric_median import weiszfeld
from fedsim.rules.selection import selection_report
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(autogm="auto_gm")
MAX_ITERATIONS = 100


class Search(NamedTuple):
    """State of the search for the weights."""

    share: Float[Array, " K"]
    change: Float[Array, ""]  # the largest change of a weight in the last iteration
    iteration: Array


@rule
def auto_gm(lam: Annotated[float, Gt(0)] | None = None) -> Rule:
    """Geometric median with weights that are optimised with it: distant clients lose theirs.

    agg, α = argmin_{v, α} Σ_i α_i ‖v − x_i‖₂ + λ/2 ‖α‖₂²  with α ≥ 0 and Σ_i α_i = 1. From equal
    weights, it alternates between v, the weighted geometric median, and
    α_i = max(0, η − ‖v − x_i‖₂) / λ with the η for which they sum to 1. Clients beyond η have no
    weight. Other software leaves the clients in the order of their index where it searches for η.
    Sample counts and updates that are not finite are ignored.

    Resists: fewer than half of the clients.
    Cost: O(K·D) per iteration of the medians, up to 100 of these.
    Needs: the whole stack.

    Args:
      lam: λ, in units of the updates: ∞ is the geometric median; a small λ ends at the client
        nearest to it. Default: m.

    References:
      Li et al. 2021, Byzantine-Robust Aggregation in Federated Learning Empowered Industrial IoT
      (AutoGM), doi:10.1109/TII.2021.3128164, Algorithm 1.

    >>> import fedsim
    >>> rows = [[0.0], [1.0], [3.0], [4.0], [90.0]]
    >>> fedsim.aggregate({"kind": "auto_gm", "lam": 20.0}, rows).tolist()
    [3.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        dtype = updates.samples.dtype
        m = jnp.sum(usable, dtype=dtype)
        penalty = m if lam is None else jnp.asarray(lam, dtype)

        def step(search: Search) -> Search:
            centre = weiszfeld(updates.delta, search.share, 0.0, None)
            distances = tree.norms(updates.delta, centre).astype(dtype)
            share = nearest_shares(distances, usable, penalty)
            change = jnp.max(jnp.abs(share - search.share))
            return Search(share, change, search.iteration + 1)

        tolerance = 64 * float(jnp.finfo(dtype).eps)

        def unfinished(search: Search) -> Array:
            return (search.change > tolerance) & (search.iteration < MAX_ITERATIONS)

        equal = jnp.where(usable, 1 / jnp.maximum(m, 1), 0).astype(dtype)
        start = Search(equal, jnp.ones((), dtype), jnp.zeros((), jnp.int32))
        share = lax.while_loop(unfinished, step, start).share

        median = weiszfeld(updates.delta, share, 0.0, None)
        return median, state, selection_report(share > 0, updates, context)

    return Rule(apply=apply)


def nearest_shares(
    away: Float[Array, " K"], usable: Bool[Array, " K"], lam: Float[Array, ""]
) -> Float[Array, " K"]:
    """Return argmin_α Σ α_i d_i + λ/2 ‖α‖² over the simplex.

    Of the sorted distances the first p have a weight: as many as stay below their level η.
    """
    ordered = jnp.sort(jnp.where(usable, away, jnp.inf))
    p = jnp.arange(1, len(away) + 1, dtype=away.dtype)
    levels = (jnp.cumsum(jnp.where(jnp.isfinite(ordered), ordered, 0)) + lam) / p
    last = jnp.sum(jnp.isfinite(ordered) & (levels > ordered)) - 1
    level = levels[jnp.maximum(last, 0)]
    return jnp.where(usable, jnp.maximum(level - away, 0) / lam, 0)
