"""Smallest maximum eigenvalue averaging."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim.compose import alias, rule
from fedsim.rules.subsets import mean_of_best_subset
from fedsim.types import Rule

alias(smea="smallest_eigenvalue")


def largest_eigenvalues(
    subsets: Bool[Array, "B K"], squared_distances: Float[Array, "K K"]
) -> Float[Array, " B"]:
    """Return the largest eigenvalue of the covariance of every subset of rows.

    It comes from distances alone, so that an outlier does not cost the others their digits.
    """
    pair = subsets[:, :, None] & subsets[:, None, :]
    limit = jnp.finfo(squared_distances.dtype).max / 16  # the inverse of more underflows
    square = jnp.where(pair, jnp.minimum(squared_distances, limit), 0)
    widest = jnp.max(square, (1, 2), keepdims=True)
    square = square / jnp.where(widest > 0, widest, 1)

    # Products ⟨x_i − x̄, x_j − x̄⟩, by double centring.  [B, K, K]
    size = jnp.sum(subsets, 1, dtype=square.dtype)[:, None, None]
    row_means = jnp.sum(square, 2, keepdims=True) / size
    mean = jnp.sum(row_means, 1, keepdims=True) / size
    products = -0.5 * (square - row_means - row_means.swapaxes(1, 2) + mean)
    products = jnp.where(pair, products, 0)

    # One matrix at a time: XLA splits a batch among the threads of its pool, and deadlocks on two
    # cores where two runs finish their rounds at once (jaxlib 0.10.2). Values and speed are those
    # of the batch.
    eigenvalues = lax.map(jnp.linalg.eigvalsh, products / size)
    return eigenvalues[:, -1] * widest[:, 0, 0]


@rule
def smallest_eigenvalue(f: Annotated[int, Ge(0)]) -> Rule:
    """Plain mean of the m−f updates whose covariance has the smallest largest eigenvalue.

    agg = x̄_S = 1/(m−f) Σ_{i∈S} x_i,
    S = argmin_{|S| = m−f} λ_max(1/(m−f) Σ_{i∈S} (x_i − x̄_S)(x_i − x̄_S)ᵀ)
    over all subsets of the m reporting clients; of several, the first in lexicographic order.
    Sample counts are ignored.

    Resists: f malicious clients, 2·f < m.    Cost: O(K²·D + C(m, f)·K³).    Needs: the whole stack.

    Args:
      f: malicious clients to expect.

    Raises:
      ScenarioError: when fewer than 2·f + 1 clients can report, or so many that they have more than
        200,000 subsets (a round with fewer or more survivors is skipped).

    References:
      Allouah, Guerraoui, Gupta, Pinot, Stephan 2023, On the Privacy-Robustness-Utility Trilemma in
      Distributed Learning, arXiv:2302.04787.

    >>> import fedsim
    >>> rule = {"kind": "smallest_eigenvalue", "f": 1}
    >>> fedsim.aggregate(rule, [[0.0], [1.0], [2.0], [1e9]]).tolist()
    [1.0]
    """
    return mean_of_best_subset(largest_eigenvalues, f)
