"""The geometric median, RFA, and the Weiszfeld iteration of both."""

from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.bounds import bounded, median_bound
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates, by_samples, reported

alias(geomedian="geometric_median")

Iterations = Annotated[int, Ge(1), Le(100_000)]  # with more, a round would not end
MAX_ITERATIONS = 1000  # where the search runs until it converges


class Search(NamedTuple):
    """State of the search for a geometric median."""

    point: Tree
    tried: Bool[Array, " K"]  # rows to which the search has jumped
    step: Float[Array, ""]  # length of the last step
    tolerance: Float[Array, ""]  # a shorter step is rounding
    iteration: Int[Array, ""]


class ShareSearch(NamedTuple):
    """State of the search on the shares of the rows in the point."""

    share: Float[Array, " K"]
    pulled: Float[Array, " K"]  # inner products of the point with all rows
    trusted: Bool[Array, ""]  # whether distances have kept their digits
    moving: Bool[Array, ""]  # whether the last step was more than rounding
    iteration: Int[Array, ""]


class Pull(NamedTuple):
    """Weiszfeld's step from a point, and what decides whether it needs a correction."""

    target: Tree  # the point after the step
    total: Float[Array, ""]  # Σ w/d over the rows that pull, times the least distance
    distances: Float[Array, " K"]  # to the rows that pull; +∞ for the others
    at_point: Bool[Array, " K"]  # rows at the point itself


@rule
def geometric_median(
    smoothing: Annotated[float, Ge(0)] = 0.0,
    iterations: Iterations | None = None,
    weights: Literal["uniform", "samples"] = "uniform",
) -> Rule:
    """The point with the least sum of distances to the updates.

    agg = argmin_v Σ_i w_i ‖v − x_i‖₂, by Weiszfeld's iteration from the weighted mean:
    v ← Σ_i β_i x_i / Σ_i β_i,  β_i = w_i / max(ν, ‖v − x_i‖).
    Without smoothing (ν = 0) an iterate may land on an update x_c: there
    v ← x_c + max(0, 1 − w_c/r)·(T − x_c), with T the iteration over the other rows and r the length
    of their joint pull; it stays exactly where x_c is the median. Updates that are not finite are
    ignored.

    Resists: less than half of the weight.
    Cost: O(K·D) per iteration; few iterations where D is large.
    Needs: the whole stack.

    Args:
      smoothing: ν, the least distance to divide by; 0 is the exact median.
      iterations: how many; left out: until a step is as small as rounding (at most 1,000).
      weights: `uniform` or `samples`.

    References:
      Weiszfeld 1937; Vardi and Zhang 2000, The multivariate L1-median and associated data depth,
      PNAS 97(4), for rows that the search lands on; Pillutla et al. 2022, Robust Aggregation for
      Federated Learning, arXiv:1912.13445.

    >>> import fedsim
    >>> rows = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1e9, 1e9]]
    >>> fedsim.aggregate("geometric_median", rows).round(4).tolist()
    [0.5, 0.5]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        del context
        weight = 1 if weights == "uniform" else updates.weight
        w = jnp.where(updates.arrived, weight, jnp.zeros_like(updates.samples))
        return weiszfeld(updates.delta, w, smoothing, iterations), state, {}

    if weights == "samples":
        return Rule(apply=apply, weights=by_samples)
    is_exact = not smoothing and iterations is None
    bound = bounded(median_bound) if is_exact else None
    return Rule(apply=apply, weights=reported, bound=bound)


@rule
def rfa(smoothing: Annotated[float, Gt(0)] = 1e-6, iterations: Iterations = 3) -> Rule:
    """Robust federated averaging: three steps towards the sample-weighted geometric median.

    v₀ = Σ_i p_i x_i,  v ← Σ_i β_i x_i / Σ_i β_i
    with  β_i = p_i / max(ν, ‖v − x_i‖₂)  and  p_i = n_i / Σ_j n_j.

    Resists: less than half of the samples, as far as three steps go: an update at a large distance
    R still moves the result by about R·p³; only `geometric_median` iterates until it converges.
    Cost: O(K·D) per iteration.
    Needs: the whole stack.

    Args:
      smoothing: ν, the least distance to divide by.
      iterations: how many.

    References:
      Pillutla et al. 2022, Robust Aggregation for Federated Learning, arXiv:1912.13445,
      Algorithm 2.

    >>> import fedsim
    >>> fedsim.aggregate("rfa", [[0.0], [1.0], [2.0]], weights=[1, 1, 1]).round(4).tolist()
    [1.0]
    """
    return geometric_median(smoothing, iterations, "samples")


def weiszfeld(delta: Tree, w: Float[Array, " K"], smoothing: float, iterations: int | None) -> Tree:
    """Return the weighted geometric median of the finite rows; zero where there is none.

    Args:
      w: weights, 0 for rows that do not count.
      smoothing: ν.
      iterations: how many; None: until the search converges.
    """

    # A row that is not finite makes the products of rows untrustworthy, so that only this branch
    # has to look for such rows.
    def by_points():
        finite = jnp.where(tree.finite_rows(delta, w.shape[0]), w, 0)
        return _search_points(delta, _shares(finite), smoothing, iterations)

    share, trusted = _search_shares(tree.gram(delta, w > 0), _shares(w), smoothing, iterations)
    return lax.cond(trusted, lambda: tree.weighted_mean(delta, share.astype(w.dtype)), by_points)


def _shares(w: Float[Array, " K"]) -> Float[Array, " K"]:
    """Weights over their sum: then the sum of large rows does not overflow before it is divided."""
    return tree.divide(w, tree.sum_weights(w))


def _stopping(iterations: int | None, dtype: Any) -> tuple[float, int]:
    """Return when a search stops: the relative length of a step that is rounding; a limit."""
    if iterations is None:
        return 8 * float(jnp.finfo(dtype).eps), MAX_ITERATIONS
    return 0.0, iterations


def _search_shares(
    products: Float[Array, "K K"], w: Float[Array, " K"], smoothing: float, iterations: int | None
) -> tuple[Float[Array, " K"], Bool[Array, ""]]:
    """Run Weiszfeld's iteration on the shares s of the rows in the point.

    A distance `‖x_i − Σ_k s_k x_k‖` needs only the products of centred rows. One that is small
    compared to these has lost its digits: near a row, or where an outlier stretches the rest, the
    search has to look at the rows themselves.

    Args:
      products: inner products of all pairs of rows, centred.
      w: weights that sum to 1.
      smoothing: ν.
      iterations: how many; None: until the search converges.

    Returns:
      The shares; whether they are to be trusted.
    """
    dtype = products.dtype
    true = jnp.zeros((), dtype) == 0
    w = w.astype(dtype)
    used = (w > 0).astype(dtype)
    squares = jnp.diagonal(products)
    rounding, limit = _stopping(iterations, dtype)

    def step(state: ShareSearch) -> ShareSearch:
        share = state.share
        pulled = state.pulled

        # Squared distances of the rows to the point.  [K]
        square_of_point = tree.weighted_sum(pulled, share)
        square = squares - 2 * pulled + square_of_point
        precise = (square > 1e-2 * (squares + square_of_point)) & jnp.isfinite(squares)
        trusted = jnp.all(jnp.where(w > 0, precise, True))

        distance = jnp.maximum(jnp.sqrt(jnp.maximum(square, 0)), smoothing)
        distance = jnp.where(w > 0, distance, jnp.inf)
        beta = jnp.where(w > 0, w * (jnp.min(distance) / distance), 0)
        total = tree.sum_weights(beta)
        new_share = tree.divide(beta, total)
        new_pulled = tree.weighted_sum(products, new_share)

        # The length of the step of the point, from the products as well.
        square_of_step = tree.weighted_sum((new_share - share) * (new_pulled - pulled), used)
        length = jnp.sqrt(jnp.maximum(square_of_step, 0))
        moving = length > rounding * jnp.min(distance) / jnp.where(total > 0, total, 1)
        return ShareSearch(new_share, new_pulled, trusted, moving, state.iteration + 1)

    def unfinished(state: ShareSearch) -> Bool[Array, ""]:
        return state.trusted & state.moving & (state.iteration < limit)

    start = ShareSearch(
        share=w,
        pulled=tree.weighted_sum(products, w),
        trusted=true,
        moving=true,
        iteration=jnp.zeros((), jnp.int32),
    )
    end = lax.while_loop(unfinished, step, start)
    return end.share, end.trusted & (~end.moving | (iterations is not None))


def _search_points(
    delta: Tree, w: Float[Array, " K"], smoothing: float, iterations: int | None
) -> Tree:
    """Run Weiszfeld's iteration on the point itself, which may be a row.

    Each step passes over the stack twice. The arguments are those of `_search_shares`, with the
    stack in place of its products.
    """
    start = tree.weighted_mean(delta, w)
    dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(start))
    rounding, limit = _stopping(iterations, dtype)
    w = w.astype(dtype)
    zero = jnp.zeros((), dtype)

    def unfinished(search: Search):
        return (search.iteration < limit) & (search.step > search.tolerance)

    def step(search: Search) -> Search:
        point = search.point
        tried = search.tried
        pull = _pull(delta, w, point, smoothing)
        target = pull.target
        if smoothing == 0:
            target, tried = _land(delta, w, point, pull, tried)
        length = tree.norm(tree.subtract(target, point))

        # The harmonic mean of the distances is the scale of the problem.
        typical = jnp.min(pull.distances) / jnp.where(pull.total > 0, pull.total, 1)
        typical = jnp.where(jnp.isfinite(typical), typical, 0)
        tolerance = rounding * (typical + tree.norm(target))
        return Search(
            point=target,
            tried=tried,
            step=length,
            tolerance=tolerance,
            iteration=search.iteration + 1,
        )

    first = Search(
        point=start,
        tried=jnp.zeros(w.shape, bool),
        step=zero + jnp.inf,
        tolerance=zero,
        iteration=jnp.zeros((), jnp.int32),
    )
    return lax.while_loop(unfinished, step, first).point


def _pull(delta: Tree, w: Float[Array, " K"], point: Tree, smoothing: float) -> Pull:
    """Weiszfeld's step from a point towards the rows that are not at it."""
    distance = jnp.where(w > 0, tree.norms(delta, point), jnp.inf)
    at_point = (distance == 0) if smoothing == 0 else jnp.zeros(w.shape, bool)
    distances = jnp.where(at_point | (w == 0), jnp.inf, jnp.maximum(distance, smoothing))

    # w/d, times the least d so that it does not overflow.
    least = jnp.min(distances)
    beta = jnp.where(jnp.isfinite(distances), w * (least / distances), 0)
    start = (tree.zeros_like(point), jnp.zeros((), w.dtype))
    pulled, total = tree.fold(start, (delta, jnp.ones_like(beta)), beta)
    return Pull(tree.divide(pulled, total), total, distances, at_point)


def _land(
    delta: Tree, w: Float[Array, " K"], point: Tree, pull: Pull, tried: Bool[Array, " K"]
) -> tuple[Tree, Bool[Array, " K"]]:
    """Correct Weiszfeld's step for rows at the point, and for a near row that may be the median.

    Near a row that is the median the plain iteration only creeps. So it jumps to a row, once, where
    the others pull less than the row weighs. At the row it stays if that still holds, else it
    leaves for good.

    Returns:
      The point after the step; the rows to which the search has jumped.
    """
    target, total, distances, at_point = pull
    least = jnp.min(distances)

    # The joint pull of the other rows, times the least distance.
    toward = tree.scale(tree.subtract(target, point), total)
    near = (distances == least) & jnp.isfinite(distances)
    weight_at, weight_near = tree.weighted_sum((at_point.astype(w.dtype), near.astype(w.dtype)), w)

    # Rows at the point hold it back.
    strength = jnp.maximum(tree.norm(toward), jnp.finfo(w.dtype).tiny)
    share = jnp.maximum(0, 1 - weight_at * least / strength)
    corrected = tree.add(point, tree.scale(tree.subtract(target, point), share))
    target = tree.select(jnp.any(at_point), corrected, target)

    # The nearest row holds the median where the pull of the rest is weaker than its weight.
    row = tree.take(delta, jnp.argmin(distances))
    rest = tree.subtract(toward, tree.scale(tree.subtract(row, point), weight_near))
    holds = tree.norm(rest) <= weight_near * least
    jump = holds & jnp.any(near) & ~jnp.any(near & tried) & ~jnp.any(at_point)
    return tree.select(jump, row, target), tried | (near & jump)
