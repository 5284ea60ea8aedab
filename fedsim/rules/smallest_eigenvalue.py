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
    kept: Bool[Array, "B K"], squared_distances: Float[Array, "K K"]
) -> Float[Array, " B"]:
    """Of the covariance of every subset of rows, from their distances alone: an outlier takes no digits from the others."""
    pair = kept[:, :, None] & kept[:, None, :]
    most = (
        jnp.finfo(squared_distances.dtype).max / 16
    )  # the inverse of more is too small for a float
    square = jnp.where(pair, jnp.minimum(squared_distances, most), 0)
    widest = jnp.max(square, (1, 2), keepdims=True)
    square = square / jnp.where(widest > 0, widest, 1)
    size = jnp.sum(kept, 1, dtype=square.dtype)[:, None, None]
    across = jnp.sum(square, 2, keepdims=True) / size
    whole = jnp.sum(across, 1, keepdims=True) / size
    centred = jnp.where(pair, -0.5 * (square - across - across.swapaxes(1, 2) + whole), 0)
    # One matrix after another: XLA divides a batch of them among the threads of its pool, and on two cores waits for
    # ever where two runs close their rounds at once (jaxlib 0.10.2). Values and speed are those of the batch.
    eigenvalues = lax.map(jnp.linalg.eigvalsh, centred / size)
    return eigenvalues[:, -1] * widest[:, 0, 0]


@rule
def smallest_eigenvalue(f: Annotated[int, Ge(0)]) -> Rule:
    """Plain mean of the m−f updates whose covariance has the smallest largest eigenvalue.

    agg = x̄_S = 1/(m−f) Σ_{i∈S} x_i,  S = argmin_{|S| = m−f} λ_max(1/(m−f) Σ_{i∈S} (x_i − x̄_S)(x_i − x̄_S)ᵀ)  over all subsets
    of the m reporting clients; of several, the first in lexicographic order. Sample counts are ignored.

    Resists: f malicious clients, 2·f < m.    Cost: O(K²·D + C(m, f)·K³).    Needs: the whole stack.

    Args:
      f: malicious clients to expect.

    Raises:
      ScenarioError: when fewer than 2·f + 1 clients can report, or so many that there are more than 200,000 subsets (a
        round with fewer or more survivors is skipped).

    References:
      Allouah, Guerraoui, Gupta, Pinot, Stephan 2023, On the Privacy-Robustness-Utility Trilemma in Distributed Learning,
      arXiv:2302.04787.

    >>> import fedsim
    >>> fedsim.aggregate({"kind": "smallest_eigenvalue", "f": 1}, [[0.0], [1.0], [2.0], [1e9]]).tolist()
    [1.0]
    """
    return mean_of_best_subset(largest_eigenvalues, f)
