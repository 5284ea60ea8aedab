"""Mean shift with a flat kernel: clusters of points without a number of clusters."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

ITERATIONS = 300  # as in scikit-learn
STILL = 1e-3  # a move of less than this share of the bandwidth is none


def largest_mean_shift(
    points: Float[Array, "K F"], present: Bool[Array, " K"]
) -> Bool[Array, " K"]:
    """The points of the largest cluster, as scikit-learn's MeanShift finds them with its estimate of the bandwidth.

    The bandwidth is the mean distance to the ⌊m/2⌋-th nearest point (itself counted); every point climbs to the mean of those
    within it; of peaks within a bandwidth the one with most points stays, and a point belongs to the nearest peak. Of
    clusters of one size, that of the peak with more points within the bandwidth, then with the larger coordinates.
    """
    K, m = points.shape[0], jnp.sum(present)
    points = jnp.where(present[:, None], points, 0)
    off = jnp.where(present[:, None] & present[None, :], _distances(points, points), jnp.inf)
    at = jnp.sort(off, axis=1)[:, jnp.clip(m // 2 - 1, 0, K - 1)]
    add = lambda k, total: total + jnp.where(present[k], at[k], 0)
    width = lax.fori_loop(0, K, add, jnp.zeros((), points.dtype)) / jnp.maximum(m, 1).astype(
        points.dtype
    )
    width = width * (
        1 + 64 * jnp.finfo(points.dtype).eps
    )  # points at this very distance are within it

    def climb(state):
        peaks, moving, iteration = state
        mean = _means(points, _within(peaks, points, width) & present[None, :])
        moved = jnp.sqrt(_squares(mean - peaks)) > STILL * width
        peaks = jnp.where(moving[:, None], mean, peaks)
        return peaks, moving & moved, iteration + 1

    unfinished = lambda state: jnp.any(state[1]) & (state[2] < ITERATIONS)
    peaks, _, _ = lax.while_loop(unfinished, climb, (points, present, 0))
    held = jnp.where(present, jnp.sum(_within(peaks, points, width) & present[None, :], axis=1), 0)
    order = jnp.lexsort((*[-peaks[:, i] for i in reversed(range(points.shape[1]))], -held))
    near = _distances(peaks, peaks) <= width

    def settle(i, stays):
        k = order[i]
        return stays & ~(stays[k] & near[k] & (jnp.arange(K) != k))

    stays = lax.fori_loop(0, K, settle, present)[order]
    to_peaks = jnp.where(stays[None, :], _distances(points, peaks[order]), jnp.inf)
    label = jnp.argmin(to_peaks, axis=1)
    sizes = jnp.sum((label[:, None] == jnp.arange(K)[None, :]) & present[:, None], axis=0)
    return present & (label == jnp.argmax(sizes))


def _squares(points: Float[Array, "... F"]) -> Float[Array, "..."]:
    """Squared lengths, one coordinate after another."""
    return sum(
        (points[..., i] * points[..., i] for i in range(1, points.shape[-1])),
        points[..., 0] * points[..., 0],
    )


def _distances(a: Float[Array, "J F"], b: Float[Array, "K F"]) -> Float[Array, "J K"]:
    return jnp.sqrt(_squares(a[:, None, :] - b[None, :, :]))


def _within(
    peaks: Float[Array, "K F"], points: Float[Array, "K F"], width: Float[Array, ""]
) -> Bool[Array, "K K"]:
    return _distances(peaks, points) <= width


def _means(points: Float[Array, "K F"], counted: Bool[Array, "K K"]) -> Float[Array, "K F"]:
    """For every row of `counted` the mean of those points; zero where there is none."""
    add = lambda k, total: total + jnp.where(counted[:, k, None], points[k][None, :], 0)
    total = lax.fori_loop(0, points.shape[0], add, jnp.zeros_like(points))
    return total / jnp.maximum(jnp.sum(counted, axis=1), 1).astype(points.dtype)[:, None]
