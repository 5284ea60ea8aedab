"""Whether numbers fall into two clusters, by the gap statistic, and which are in the upper one."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

REFERENCES = 10  # sets of uniform numbers, as in the authors' code


def upper_cluster(values: Float[Array, " N"], among: Bool[Array, " N"]) -> Bool[Array, " N"]:
    """The numbers in the upper one of two clusters, nobody where one cluster explains them.

    Of the n ≥ 3 numbers, moved to [0, 1]:  W_k is the least sum of squared distances to k centres, exactly; gap_k = ln mean
    W_k(reference) − ln W_k over reference sets of n uniform numbers, always the same ones. There are two clusters if
    gap₁ < gap₂ − s₂ with s₂ = √(1 + 1/B) std(ln W₂(reference)).

    References:
      Tibshirani, Walther, Hastie 2001, Estimating the number of clusters in a data set via the gap statistic.
    """
    n = jnp.sum(among)
    low, high = (
        jnp.min(jnp.where(among, values, jnp.inf)),
        jnp.max(jnp.where(among, values, -jnp.inf)),
    )
    differ = (n > 2) & (high > low)
    moved = jnp.where(differ, (values - low) / jnp.where(differ, high - low, 1), 0)
    uniform = jnp.asarray(
        np.random.default_rng(0).random((len(values), REFERENCES)).T, values.dtype
    )
    ordered = jnp.sort(jnp.where(among, jnp.concatenate([moved[None], uniform]), jnp.inf), axis=1)
    one, two, split = _within(ordered, n)
    gap = lambda w: jnp.log(jnp.mean(w[1:])) - jnp.log(w[0])
    room = np.sqrt(1 + 1 / REFERENCES) * jnp.std(jnp.log(two[1:]))
    attacked = differ & (gap(one) < gap(two) - room)
    return attacked & among & (moved > ordered[0, split[0]])


def _within(
    ordered: Float[Array, "B N"], n: Int[Array, ""]
) -> tuple[Float[Array, " B"], Float[Array, " B"], Int[Array, " B"]]:
    """(W₁, W₂, the last of the lower cluster) of sets of n numbers in ascending order."""
    place, dtype = jnp.arange(ordered.shape[1]), ordered.dtype
    x = jnp.where(place < n, ordered, 0)
    x = jnp.where(place < n, x - jnp.sum(x, 1, keepdims=True) / jnp.maximum(n, 1).astype(dtype), 0)
    sums, squares = jnp.cumsum(x, 1), jnp.cumsum(x * x, 1)
    left, right = (place + 1).astype(dtype), jnp.maximum(n - place - 1, 1).astype(dtype)
    below = squares - sums**2 / left
    above = squares[:, -1:] - squares - (sums[:, -1:] - sums) ** 2 / right
    total = jnp.where(place < n - 1, below + above, jnp.inf)
    least = (
        n.astype(dtype) * jnp.finfo(dtype).eps
    )  # nearer to 0 the difference of sums says nothing
    one, two = squares[:, -1], jnp.min(total, axis=1)
    return jnp.maximum(one, least), jnp.maximum(two, least), jnp.argmin(total, axis=1)
