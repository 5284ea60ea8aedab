"""Published bounds of rules: (f, κ)-robustness.

A rule F is (f, κ)-robust for n rows, 2·f < n, where for all rows and every set H of n − f of them

    ‖F(x₁, …, x_n) − mean_H‖² ≤ κ · 1/|H| Σ_{i∈H} ‖x_i − mean_H‖².

The set may be larger: where fewer than f rows are malicious, the bound holds for all honest rows,
by Jensen's inequality over their subsets of n − f rows.

References:
  Allouah et al. 2023, Fixing by Mixing, arXiv:2302.01772, Table 1 and Lemma 1.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fedsim.types import Bound


def median_bound(n: Array, f: Array) -> Array:
    """The bound of the coordinate-wise and of the geometric median: κ = 4 (1 + f / (n − 2f))²."""
    return 4 * (1 + f / (n - 2 * f)) ** 2


def trimmed_bound(n: Array, f: Array) -> Array:
    """The bound of the trimmed mean: κ = 6f / (n − 2f) · (1 + f / (n − 2f))."""
    return 6 * f / (n - 2 * f) * (1 + f / (n - 2 * f))


def krum_bound(n: Array, f: Array) -> Array:
    """The bound of Krum: κ = 6 (1 + f / (n − 2f))."""
    return 6 * (1 + f / (n - 2 * f))


def bounded(published: Callable[[Array, Array], Array], f: int | None = None) -> Bound:
    """Return the bound of a rule that expects f malicious clients.

    Args:
      published: (n, f) -> κ.
      f: the malicious clients that the rule expects; left out: as many as there are.
    """

    def kappa(n: Int[Array, ""], malicious: Int[Array, ""]) -> Float[Array, ""]:
        expected = malicious if f is None else jnp.asarray(f)
        holds = (malicious <= expected) & (2 * expected < n)
        bound = published(n.astype(float), jnp.where(holds, expected, 0).astype(float))
        return jnp.where(holds, bound, jnp.nan)

    return kappa
