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

# A share of the largest float: the inverse of a wider distance underflows.
WIDEST = 1 / 16


class Filtering(NamedTuple):
    """State of the filter."""

    share: Float[Array, " K"]  # c_i
    best: Float[Array, " K"]  # the c_i of the least λ so far
    spread: Float[Array, ""]  # that λ
    iteration: Int[Array, ""]
    done: Bool[Array, ""]


@rule
def covariance_filter(f: Annotated[int, Ge(0)]) -> Rule:
    """Weighted mean of the updates; weights shrink along the direction of largest spread.

    c_i = 1;  while Σ c_i > m−2f:  μ = Σ c_i x_i / Σ c_i,
    (λ, v) = the largest eigenvalue and its eigenvector of Σ c_i (x_i − μ)(x_i − μ)ᵀ / Σ c_i,
    τ_i = ⟨v, x_i − μ⟩²,  c_i ← c_i (1 − τ_i / max_{c_j > 0} τ_j);
    agg = the μ with the least λ. Sample counts are ignored.

    Resists: f malicious clients, 2·f < m, without a bound on the spread of the others.
    Cost: O(K²·D + K⁴).
    Needs: the whole stack.

    Args:
      f: malicious clients to expect; 0 is the plain mean.

    Raises:
      ScenarioError: when fewer than 2·f + 1 clients can report (a round with fewer survivors is
        skipped).

    References:
      Allouah et al. 2025, Towards Trustworthy Federated Learning with Untrusted Participants,
      arXiv:2505.01874, Algorithm 2 (there the eigenvector comes from power iteration; here the
      largest τ is taken over clients whose c_i is not zero, otherwise the loop might not end).

    >>> import fedsim
    >>> rule = {"kind": "covariance_filter", "f": 1}
    >>> fedsim.aggregate(rule, [[0.0], [1.0], [2.0], [1e9]]).round(3).tolist()
    [1.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        del context
        present = updates.arrived
        distance = tree.squared_distances(updates.delta, present)
        distance = jnp.where(jnp.isfinite(distance), distance, 0)
        share = filtered(distance, present, f)
        return tree.weighted_mean(updates.delta, share.astype(updates.samples.dtype)), state, {}

    return Rule(apply=apply, least=2 * f + 1)


def filtered(
    squared_distances: Float[Array, "K K"], present: Bool[Array, " K"], f: int
) -> Float[Array, " K"]:
    """Return the weights of the mean around which the rows spread least."""
    dtype = squared_distances.dtype
    m = jnp.sum(present, dtype=dtype)
    equal = present.astype(dtype)

    def unfinished(filtering: Filtering):
        heavy = total(filtering.share) > m - 2 * f
        return heavy & ~filtering.done & (filtering.iteration < len(present))

    def step(filtering: Filtering) -> Filtering:
        spread, off = spread_of(squared_distances, filtering.share)
        better = spread < filtering.spread
        active = filtering.share > 0
        tau = jnp.where(active, off * off, 0)
        most = jnp.max(tau)
        smaller = active & (tau < most)
        share = filtering.share * (1 - tau / jnp.where(most > 0, most, 1))
        return Filtering(
            share=jnp.where(smaller, share, 0),
            best=jnp.where(better, filtering.share, filtering.best),
            spread=jnp.where(better, spread, filtering.spread),
            iteration=filtering.iteration + 1,
            done=most == 0,
        )

    start = Filtering(
        share=equal,
        best=equal,
        spread=jnp.full((), jnp.inf, dtype),
        iteration=jnp.zeros((), jnp.int32),
        done=jnp.zeros((), bool),
    )
    return lax.while_loop(unfinished, step, start).best


def spread_of(
    squared_distances: Float[Array, "K K"], share: Float[Array, " K"]
) -> tuple[Float[Array, ""], Float[Array, " K"]]:
    """Return the spread of the rows around their weighted mean, from the distances of pairs alone.

    Returns:
      λ of the weighted covariance; how far each row is off along v, up to a common factor.
    """
    active = (share[:, None] > 0) & (share[None, :] > 0)
    limit = WIDEST * jnp.finfo(squared_distances.dtype).max
    square = jnp.where(active, jnp.minimum(squared_distances, limit), 0)
    widest = jnp.max(square)
    square = square * jnp.where(widest > 0, 1 / jnp.where(widest > 0, widest, 1), 0)

    # Products ⟨x_i − μ, x_j − μ⟩, by double centring.
    sum_of_shares = total(share)
    p = share / jnp.where(sum_of_shares > 0, sum_of_shares, 1)
    row_means = total(p[:, None] * square)
    mean = total(p * row_means)
    products = -0.5 * (square - row_means[:, None] - row_means[None, :] + mean)
    products = jnp.where(active, products, 0)

    root = jnp.sqrt(p)
    value, vector = dominant(root[:, None] * products * root[None, :])
    return value * widest, total((root * vector)[:, None] * products)
