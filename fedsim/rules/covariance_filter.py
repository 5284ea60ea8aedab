"""The covariance-bound agnostic filter."""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
from annotated_types import Ge
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.eigen import dominant, total
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(caf="covariance_filter")

WIDEST = 1 / 16  # of the largest float: the inverse of what is wider is too small for one


class Filtering(NamedTuple):
    """Where the filter stands."""

    share: Float[Array, " K"]  # c_i
    best: Float[Array, " K"]  # the c_i of the least spread so far
    spread: Float[Array, ""]  # its λ
    iteration: Int[Array, ""]
    done: Bool[Array, ""]


@rule
def covariance_filter(f: Annotated[int, Ge(0)]) -> Rule:
    """Weighted mean of the updates, whose weights sink along the direction in which they spread most.

    c_i = 1;  while Σ c_i > m−2f:  μ = Σ c_i x_i / Σ c_i,  (λ, v) = the largest eigenvalue and its eigenvector of
    Σ c_i (x_i − μ)(x_i − μ)ᵀ / Σ c_i,  τ_i = ⟨v, x_i − μ⟩²,  c_i ← c_i (1 − τ_i / max_{c_j > 0} τ_j);  agg = the μ with the least
    λ. Sample counts are ignored.

    Resists: f malicious clients, 2·f < m, without knowing how far the others spread.    Cost: O(K²·D + K⁴).
    Needs: the whole stack.

    Args:
      f: malicious clients to expect; 0 is the plain mean.

    Raises:
      ScenarioError: when fewer than 2·f + 1 clients can report (a round with fewer survivors is skipped).

    References:
      Allouah et al. 2025, Towards Trustworthy Federated Learning with Untrusted Participants, arXiv:2505.01874,
      Algorithm 2 (there the eigenvector by power iteration; the largest τ here is that of clients whose c_i is not zero,
      without which the loop need not end).

    >>> import fedsim
    >>> fedsim.aggregate({"kind": "covariance_filter", "f": 1}, [[0.0], [1.0], [2.0], [1e9]]).round(3).tolist()
    [1.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        del context
        present = updates.arrived
        distance = tree.squared_distances(updates.delta, present)
        share = filtered(jnp.where(jnp.isfinite(distance), distance, 0), present, f)
        return tree.weighted_mean(updates.delta, share.astype(updates.samples.dtype)), state, {}

    return Rule(apply=apply, least=2 * f + 1)


def filtered(
    squared_distances: Float[Array, "K K"], present: Bool[Array, " K"], f: int
) -> Float[Array, " K"]:
    """The weights of the mean around which the rows spread least."""
    dtype = squared_distances.dtype
    m, one = jnp.sum(present, dtype=dtype), present.astype(dtype)

    def unfinished(filtering: Filtering):
        return (
            (total(filtering.share) > m - 2 * f)
            & ~filtering.done
            & (filtering.iteration < len(present))
        )

    def step(filtering: Filtering) -> Filtering:
        spread, off = spread_of(squared_distances, filtering.share)
        less = spread < filtering.spread
        active = filtering.share > 0
        tau = jnp.where(active, off * off, 0)
        most = jnp.max(tau)
        share = jnp.where(
            active & (tau < most), filtering.share * (1 - tau / jnp.where(most > 0, most, 1)), 0
        )
        best = jnp.where(less, filtering.share, filtering.best)
        return Filtering(
            share,
            best,
            jnp.where(less, spread, filtering.spread),
            filtering.iteration + 1,
            most == 0,
        )

    never = Filtering(
        one, one, jnp.full((), jnp.inf, dtype), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    )
    return lax.while_loop(unfinished, step, never).best


def spread_of(
    squared_distances: Float[Array, "K K"], share: Float[Array, " K"]
) -> tuple[Float[Array, ""], Float[Array, " K"]]:
    """(λ, how far each row is off along v, up to a factor) of the weighted covariance, from distances of pairs alone."""
    active = (share[:, None] > 0) & (share[None, :] > 0)
    square = jnp.where(
        active, jnp.minimum(squared_distances, WIDEST * jnp.finfo(squared_distances.dtype).max), 0
    )
    widest = jnp.max(square)
    square = square * jnp.where(widest > 0, 1 / jnp.where(widest > 0, widest, 1), 0)
    sum = total(share)
    p = share / jnp.where(sum > 0, sum, 1)
    across = total(p[:, None] * square)
    whole = total(p * across)
    centred = jnp.where(active, -0.5 * (square - across[:, None] - across[None, :] + whole), 0)
    root = jnp.sqrt(p)
    value, vector = dominant(root[:, None] * centred * root[None, :])
    return value * widest, total((root * vector)[:, None] * centred)
