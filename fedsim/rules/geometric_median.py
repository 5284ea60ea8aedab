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

Iterations = Annotated[int, Ge(1), Le(100_000)]  # a round of more would not end
MOST_ITERATIONS = 1000  # of a search that runs until it converges


class Search(NamedTuple):
    """State of the search for a geometric median."""

    point: Tree
    tried: Bool[Array, " K"]  # rows that the search has stood on
    step: Float[Array, ""]  # length of the last step
    tolerance: Float[Array, ""]  # length of a step that is rounding
    iteration: Int[Array, ""]


@rule
def geometric_median(
    smoothing: Annotated[float, Ge(0)] = 0.0,
    iterations: Iterations | None = None,
    weights: Literal["uniform", "samples"] = "uniform",
) -> Rule:
    """The point with the least sum of distances to the updates.

    agg = argmin_v Σ_i w_i ‖v − x_i‖₂, by Weiszfeld's iteration from the weighted mean:  v ← Σ_i β_i x_i / Σ_i β_i,
    β_i = w_i / max(ν, ‖v − x_i‖).  Without smoothing (ν = 0) an iterate may land on an update x_c: there
    v ← x_c + max(0, 1 − w_c/r)·(T − x_c), with T the iteration over the other rows and r the length of their joint pull,
    which stays exactly where x_c is the median. Updates that are not finite are left out.

    Resists: less than half of the weight.    Cost: O(K·D) per iteration, few of them where D is large.
    Needs: the whole stack.

    Args:
      smoothing: ν, the least distance to divide by; 0 is the exact median.
      iterations: how many; until a step is as small as rounding (at most 1,000) if left out.
      weights: `uniform` or `samples`.

    References:
      Weiszfeld 1937; Vardi and Zhang 2000, The multivariate L1-median and associated data depth, PNAS 97(4), for rows
      that the search lands on; Pillutla et al. 2022, Robust Aggregation for Federated Learning, arXiv:1912.13445.

    >>> import fedsim
    >>> fedsim.aggregate("geometric_median", [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1e9, 1e9]]).round(4).tolist()
    [0.5, 0.5]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        del context
        w = jnp.where(
            updates.arrived,
            1 if weights == "uniform" else updates.weight,
            jnp.zeros_like(updates.samples),
        )
        return weiszfeld(updates.delta, w, smoothing, iterations), state, {}

    if weights == "samples":
        return Rule(apply=apply, weights=by_samples)
    exact = not smoothing and iterations is None
    return Rule(apply=apply, weights=reported, bound=bounded(median_bound) if exact else None)


@rule
def rfa(smoothing: Annotated[float, Gt(0)] = 1e-6, iterations: Iterations = 3) -> Rule:
    """Robust federated averaging: three steps from the mean towards the sample-weighted geometric median.

    v₀ = Σ_i p_i x_i,  v ← Σ_i β_i x_i / Σ_i β_i  with  β_i = p_i / max(ν, ‖v − x_i‖₂)  and p_i = n_i / Σ_j n_j.

    Resists: less than half of the samples, as far as three steps go: an update at a large distance R still moves the result
    by about R·p³, and only `geometric_median` iterates to the end.    Cost: O(K·D) per iteration.    Needs: the whole stack.

    Args:
      smoothing: ν, the least distance to divide by.
      iterations: how many.

    References:
      Pillutla et al. 2022, Robust Aggregation for Federated Learning, arXiv:1912.13445, Algorithm 2.

    >>> import fedsim
    >>> fedsim.aggregate("rfa", [[0.0], [1.0], [2.0]], weights=[1, 1, 1]).round(4).tolist()
    [1.0]
    """
    return geometric_median(smoothing, iterations, "samples")


def weiszfeld(delta: Tree, w: Float[Array, " K"], smoothing: float, iterations: int | None) -> Tree:
    """The weighted geometric median of the finite rows whose weight is positive; zero where there is none.

    A row that is not finite makes the products of rows untrustworthy, so finite rows are looked for in that case alone.
    """

    def by_points():
        finite = jnp.where(tree.finite_rows(delta, w.shape[0]), w, 0)
        return _search_points(delta, _shares(finite), smoothing, iterations)

    share, trusted = _search_shares(tree.gram(delta, w > 0), _shares(w), smoothing, iterations)
    return lax.cond(trusted, lambda: tree.weighted_mean(delta, share.astype(w.dtype)), by_points)


def _shares(w: Float[Array, " K"]) -> Float[Array, " K"]:
    """Weights over their sum: then the sum of large rows does not overflow before it is divided."""
    return tree.divide(w, tree.sum_weights(w))


def _stopping(iterations: int | None, dtype: Any) -> tuple[float, int]:
    """(relative length of a step that is rounding, most iterations) of a search."""
    return (
        (8 * float(jnp.finfo(dtype).eps), MOST_ITERATIONS)
        if iterations is None
        else (0.0, iterations)
    )


def _search_shares(
    products: Float[Array, "K K"], w: Float[Array, " K"], smoothing: float, iterations: int | None
):
    """Weiszfeld's iteration on the shares of the rows in the point -> (shares, whether their distances kept their digits).

    A distance `‖x_i − Σ_k s_k x_k‖` needs only the products of centred rows. One that is small beside these has lost its
    digits: near a row, or where an outlier stretches the rest, the search has to look at the rows themselves.
    """
    dtype, zero = products.dtype, jnp.zeros((), products.dtype)
    w, used, squares = w.astype(dtype), (w > 0).astype(dtype), jnp.diagonal(products)
    rounding, limit = _stopping(iterations, dtype)

    def step(state):
        share, pulled, _, _, iteration = state  # pulled: products of the point with all rows
        square_point = tree.weighted_sum(pulled, share)  # ‖point‖²
        square = squares - 2 * pulled + square_point
        trusted = jnp.all(
            jnp.where(
                w > 0, (square > 1e-2 * (squares + square_point)) & jnp.isfinite(squares), True
            )
        )
        away = jnp.where(w > 0, jnp.maximum(jnp.sqrt(jnp.maximum(square, 0)), smoothing), jnp.inf)
        beta = jnp.where(w > 0, w * (jnp.min(away) / away), 0)
        total = tree.sum_weights(beta)
        new = tree.divide(beta, total)
        reached = tree.weighted_sum(products, new)
        moved = jnp.sqrt(
            jnp.maximum(tree.weighted_sum((new - share) * (reached - pulled), used), 0)
        )
        moving = moved > rounding * jnp.min(away) / jnp.where(total > 0, total, 1)
        return new, reached, trusted, moving, iteration + 1

    def unfinished(state):
        *_, trusted, moving, iteration = state
        return trusted & moving & (iteration < limit)

    first = w, tree.weighted_sum(products, w), zero == 0, zero == 0, jnp.zeros((), jnp.int32)
    share, _, trusted, moving, _ = lax.while_loop(unfinished, step, first)
    return share, trusted & (~moving | (iterations is not None))


def _search_points(
    delta: Tree, w: Float[Array, " K"], smoothing: float, iterations: int | None
) -> Tree:
    """Weiszfeld's iteration on the point itself, which may be a row: two passes over the stack for each step."""
    start = tree.weighted_mean(delta, w)
    dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(start))
    rounding, limit = _stopping(iterations, dtype)
    w, zero = w.astype(dtype), jnp.zeros((), dtype)

    def unfinished(search: Search):
        return (search.iteration < limit) & (search.step > search.tolerance)

    def step(search: Search) -> Search:
        point, tried = search.point, search.tried
        away = jnp.where(w > 0, tree.norms(delta, point), jnp.inf)
        at_point = (away == 0) if smoothing == 0 else jnp.zeros_like(tried)
        others = jnp.where(at_point | (w == 0), jnp.inf, jnp.maximum(away, smoothing))
        least = jnp.min(others)
        beta = jnp.where(
            jnp.isfinite(others), w * (least / others), 0
        )  # w/d, times the least d: no overflow
        pulled, total = tree.fold(
            (tree.zeros_like(point), zero), (delta, jnp.ones_like(beta)), beta
        )
        target = tree.divide(pulled, total)
        if smoothing == 0:
            target, tried = _land(delta, w, point, target, total, others, at_point, tried)
        length = tree.norm(tree.subtract(target, point))
        typical = least / jnp.where(total > 0, total, 1)  # harmonic mean of the distances
        typical = jnp.where(jnp.isfinite(typical), typical, 0)
        tolerance = rounding * (typical + tree.norm(target))
        return Search(
            point=target,
            tried=tried,
            step=length,
            tolerance=tolerance,
            iteration=search.iteration + 1,
        )

    tried, none = jnp.zeros(w.shape, bool), jnp.zeros((), jnp.int32)
    first = Search(point=start, tried=tried, step=zero + jnp.inf, tolerance=zero, iteration=none)
    return lax.while_loop(unfinished, step, first).point


def _land(
    delta, w, point, target, total, others, at_point, tried
) -> tuple[Tree, Bool[Array, " K"]]:
    """Weiszfeld's step corrected for rows at the point, and for a row beside it that may be the median itself.

    Near a row that is the median the plain iteration only creeps: it jumps there, once for each row, when the others pull
    less than the row weighs; standing on it, it stays if that is still so, and leaves for good if not.
    """
    least = jnp.min(others)
    toward = tree.scale(
        tree.subtract(target, point), total
    )  # joint pull of the other rows, times the least distance
    near = (others == least) & jnp.isfinite(others)
    weight_at, weight_near = tree.weighted_sum((at_point.astype(w.dtype), near.astype(w.dtype)), w)
    held = jnp.maximum(
        0, 1 - weight_at * least / jnp.maximum(tree.norm(toward), jnp.finfo(w.dtype).tiny)
    )
    corrected = tree.add(point, tree.scale(tree.subtract(target, point), held))
    target = tree.select(jnp.any(at_point), corrected, target)

    row = tree.take(delta, jnp.argmin(others))
    rest = tree.subtract(toward, tree.scale(tree.subtract(row, point), weight_near))
    jump = (
        (tree.norm(rest) <= weight_near * least)
        & jnp.any(near)
        & ~jnp.any(near & tried)
        & ~jnp.any(at_point)
    )
    return tree.select(jump, row, target), tried | (near & jump)
