"""The gap statistic: whether numbers fall into two clusters, and which are in the upper one."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

REFERENCES = 10  # sets of uniform numbers, as in the authors' code


def upper_cluster(values: Float[Array, " N"], among: Bool[Array, " N"]) -> Bool[Array, " N"]:
    """The numbers in the upper one of two clusters; none where a single cluster explains them.

    Of the n ≥ 3 numbers, moved to [0, 1]:  W_k is the least sum of squared distances to k centres,
    exactly; gap_k = ln mean W_k(reference) − ln W_k over reference sets of n uniform numbers,
    always the same ones. There are two clusters if gap₁ < gap₂ − s₂ with s₂ = √(1 + 1/B) std(ln
    W₂(reference)).

    References:
      Tibshirani, Walther, Hastie 2001, Estimating the number of clusters in a data set via the gap
      statistic.
    """
    n = jnp.sum(among)
    low = jnp.min(jnp.where(among, values, jnp.inf))
    high = jnp.max(jnp.where(among, values, -jnp.inf))
    differ = (n > 2) & (high > low)
    scaled = jnp.where(differ, (values - low) / jnp.where(differ, high - low, 1), 0)

    # Row 0 holds the numbers, the others the reference sets.  [1 + REFERENCES, N]
    uniform = np.random.default_rng(0).random((len(values), REFERENCES)).T
    sets = jnp.concatenate([scaled[None], jnp.asarray(uniform, values.dtype)])
    ordered = jnp.sort(jnp.where(among, sets, jnp.inf), axis=1)
    w1, w2, split = _within(ordered, n)

    gap = lambda w: jnp.log(jnp.mean(w[1:])) - jnp.log(w[0])
    s2 = np.sqrt(1 + 1 / REFERENCES) * jnp.std(jnp.log(w2[1:]))
    two_clusters = differ & (gap(w1) < gap(w2) - s2)
    return two_clusters & among & (scaled > ordered[0, split[0]])


def _within(
    ordered: Float[Array, "B N"], n: Int[Array, ""]
) -> tuple[Float[Array, " B"], Float[Array, " B"], Int[Array, " B"]]:
    """Return W₁, W₂ and the index of the last number of the lower cluster, of every set.

    Args:
      ordered: sets of n numbers in ascending order.
      n: how many numbers of a row count.
    """
    index = jnp.arange(ordered.shape[1])
    dtype = ordered.dtype
    x = jnp.where(index < n, ordered, 0)
    mean = jnp.sum(x, 1, keepdims=True) / jnp.maximum(n, 1).astype(dtype)
    x = jnp.where(index < n, x - mean, 0)

    # Sums of squared distances to the means below and above a split behind every number.
    sums = jnp.cumsum(x, 1)
    squares = jnp.cumsum(x * x, 1)
    count_below = (index + 1).astype(dtype)
    count_above = jnp.maximum(n - index - 1, 1).astype(dtype)
    below = squares - sums**2 / count_below
    above = squares[:, -1:] - squares - (sums[:, -1:] - sums) ** 2 / count_above
    total = jnp.where(index < n - 1, below + above, jnp.inf)

    w1 = squares[:, -1]
    w2 = jnp.min(total, axis=1)
    least = n.astype(dtype) * jnp.finfo(dtype).eps  # a smaller difference of sums is rounding
    return jnp.maximum(w1, least), jnp.maximum(w2, least), jnp.argmin(total, axis=1)
