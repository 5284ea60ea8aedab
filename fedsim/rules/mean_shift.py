"""Mean shift with a flat kernel, which clusters points without a given number of clusters."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

ITERATIONS = 300  # as in scikit-learn
STILL = 1e-3  # a point stops when it moves by a smaller share of the bandwidth


def largest_mean_shift(
    points: Float[Array, "K F"], present: Bool[Array, " K"]
) -> Bool[Array, " K"]:
    """The points of the largest cluster, as scikit-learn's MeanShift finds it.

    The bandwidth, also scikit-learn's, is the mean distance to the ⌊m/2⌋-th nearest point (the
    point itself counts). Every point climbs to the mean of the points within the bandwidth; of
    peaks within a bandwidth only the one with most points remains, and a point belongs to the
    nearest peak. Among clusters of the same size, the peak with more points within the bandwidth
    wins, then the one with the larger coordinates.
    """
    K = points.shape[0]
    points = jnp.where(present[:, None], points, 0)
    width = _bandwidth(points, present)

    def climb(state):
        peaks, moving, iteration = state
        mean = _means(points, _within(peaks, points, width) & present[None, :])
        moved = jnp.sqrt(_squares(mean - peaks)) > STILL * width
        peaks = jnp.where(moving[:, None], mean, peaks)
        return peaks, moving & moved, iteration + 1

    def unfinished(state):
        _, moving, iteration = state
        return jnp.any(moving) & (iteration < ITERATIONS)

    peaks, _, _ = lax.while_loop(unfinished, climb, (points, present, 0))

    # Peaks in order: more points within the bandwidth first, then larger coordinates.
    size = jnp.sum(_within(peaks, points, width) & present[None, :], axis=1)
    size = jnp.where(present, size, 0)
    coordinates = [-peaks[:, i] for i in reversed(range(points.shape[1]))]
    order = jnp.lexsort((*coordinates, -size))

    # Each peak that remains removes the later ones near it.
    near = _distances(peaks, peaks) <= width

    def remove_near(i, remains):
        k = order[i]
        return remains & ~(remains[k] & near[k] & (jnp.arange(K) != k))

    remains = lax.fori_loop(0, K, remove_near, present)[order]
    to_peaks = jnp.where(remains[None, :], _distances(points, peaks[order]), jnp.inf)
    label = jnp.argmin(to_peaks, axis=1)
    sizes = jnp.sum((label[:, None] == jnp.arange(K)[None, :]) & present[:, None], axis=0)
    return present & (label == jnp.argmax(sizes))


def _bandwidth(points: Float[Array, "K F"], present: Bool[Array, " K"]) -> Float[Array, ""]:
    """The mean distance of the present points to their ⌊m/2⌋-th nearest."""
    K = points.shape[0]
    m = jnp.sum(present)
    pair = present[:, None] & present[None, :]
    distances = jnp.where(pair, _distances(points, points), jnp.inf)
    nearest = jnp.sort(distances, axis=1)[:, jnp.clip(m // 2 - 1, 0, K - 1)]

    add = lambda k, total: total + jnp.where(present[k], nearest[k], 0)
    total = lax.fori_loop(0, K, add, jnp.zeros((), points.dtype))
    mean = total / jnp.maximum(m, 1).astype(points.dtype)

    # Points at exactly this distance are within it.
    return mean * (1 + 64 * jnp.finfo(points.dtype).eps)


def _squares(points: Float[Array, "... F"]) -> Float[Array, "..."]:
    """Squared lengths, summed in the order of the coordinates."""
    total = points[..., 0] * points[..., 0]
    for i in range(1, points.shape[-1]):
        total = total + points[..., i] * points[..., i]
    return total


def _distances(a: Float[Array, "J F"], b: Float[Array, "K F"]) -> Float[Array, "J K"]:
    return jnp.sqrt(_squares(a[:, None, :] - b[None, :, :]))


def _within(
    peaks: Float[Array, "K F"], points: Float[Array, "K F"], width: Float[Array, ""]
) -> Bool[Array, "K K"]:
    return _distances(peaks, points) <= width


def _means(points: Float[Array, "K F"], counted: Bool[Array, "K K"]) -> Float[Array, "K F"]:
    """The mean of the points that each row of `counted` selects; zero where it selects none."""
    add = lambda k, total: total + jnp.where(counted[:, k, None], points[k][None, :], 0)
    total = lax.fori_loop(0, points.shape[0], add, jnp.zeros_like(points))
    return total / jnp.maximum(jnp.sum(counted, axis=1), 1).astype(points.dtype)[:, None]
