"""Residual-based reweighting: clients far from a robust line through the values count less."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.compose import alias, rule
from fedsim.rules.sorting import ascending, middle
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates

alias(irls="residual_reweighting")


@rule
def residual_reweighting(
    lam: Annotated[float, Gt(0)] = 2.0, threshold: Annotated[float, Ge(0), Le(1)] = 0.1
) -> Rule:
    """Mean with weights from how near a client's values are to a robust line through all of them.

    For every coordinate, with k_i the rank of x_i among the m values, from 0:
    the line a + b k with b = med_k med_{l≠k} (x₍ₖ₎ − x₍ₗ₎)/(k − l) and a = med x − b (m−1)/2;
    r_i = x_i − a − b k_i;
    τ = 1.4826 (1 + 5/(m−1)) M, M the median of |r| without its least value;
    w_i = min(1, λ √(2/m) √(1 − h_i) τ/|r_i|) with h_i = 1/m + 12 (k_i − (m−1)/2)²/(m (m² − 1));
    y_i = x_i, or a + b k_i where w_i < δ.
    W_i = Σ w_i std(w) over the coordinates, std with m − 1;  agg = Σ W_i² y_i / Σ W_i².
    It is the plain mean where all W_i are 0: for equal updates, and for one or two. Sample counts
    and updates that are not finite are ignored.

    As in the authors' code, a comes from the median and W is squared. Their code adds 1e-7 to τ, in
    the units of the parameters; here w_i = 0 if M = 0 and r_i is not.

    Resists: about a third of the clients (3 of 9), as long as, for every value, more than half of
    the slopes are between good values.
    Cost: O(K² log² K) per coordinate, and twice the stack in memory.
    Needs: the whole stack.

    Args:
      lam: λ; with a larger one more updates keep their full weight.
      threshold: δ; values of a smaller weight are replaced by the line.

    References:
      Fu, Xie, Li, Chen 2019, Attack-Resistant Federated Learning with Residual-based Reweighting,
      arXiv:1912.11464.

    >>> import fedsim
    >>> rows = [[0.0, 1.0], [1.0, 2.5], [2.2, 3.0], [3.1, 4.0], [99.0, -99.0]]
    >>> fedsim.aggregate("residual_reweighting", rows).round(2).tolist()
    [1.58, 2.62]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        K = updates.samples.shape[0]
        usable = updates.arrived & tree.finite_rows(updates.delta, K)
        both = tree.by_columns(lambda x: reweighted(x, usable, lam, threshold), updates.delta, K)
        values = tree.take(both, 0)
        shares = tree.take(both, 1)
        weights = jnp.where(usable, lax.map(_total, shares), 0)
        most = jnp.max(weights)
        squares = (weights / jnp.where(most > 0, most, 1)) ** 2
        squares = jnp.where(most > 0, squares, usable).astype(updates.samples.dtype)
        return tree.weighted_mean(values, squares), state, {}

    return Rule(apply=apply)


def reweighted(
    x: Float[Array, "K C"], usable: Bool[Array, " K"], lam: float, threshold: float
) -> Float[Array, "2 K C"]:
    """Return the values y and the products w std(w), of every row and column."""
    m = jnp.sum(usable)
    if x.shape[0] < 3:
        return jnp.stack([x, jnp.zeros_like(x)])
    dtype = x.dtype
    n = m.astype(dtype)
    few = m < 3

    # The line through the values in ascending order, at every value's rank.
    ordered = ascending(jnp.where(usable[:, None], x, jnp.inf))
    slope = repeated_median(ordered, m)
    rank = ranks(x, usable).astype(dtype) - (n - 1) / 2  # from the middle
    line = middle(ordered, m)[None, :] + slope[None, :] * rank

    residual = jnp.abs(x - line)
    spread = middle(ascending(jnp.where(usable[:, None], residual, jnp.inf))[1:], m - 1)
    tau = 1.4826 * (1 + 5 / jnp.maximum(n - 1, 1)) * spread
    leverage = 1 / n + 12 * rank**2 / (n * jnp.maximum(n**2 - 1, 1))
    reach = lam * jnp.sqrt(2 / n) * jnp.sqrt(jnp.maximum(1 - leverage, 0)) * tau

    w = jnp.where((residual <= reach) | few, 1, reach / jnp.where(residual > 0, residual, 1))
    y = jnp.where((w < threshold) & ~few, line, x)
    return jnp.stack([y, w * _std(w, usable)[None, :]])


def repeated_median(ordered: Float[Array, "P C"], m: Int[Array, ""]) -> Float[Array, " C"]:
    """Return the repeated-median slope of m values in ascending order, against their ranks.

    It is the median, over the values, of the median slope between a value and the others.
    """
    index = jnp.arange(ordered.shape[0])

    def median_slope(k):
        other = (index < m) & (index != k)
        gap = jnp.where(other, k - index, 1).astype(ordered.dtype)[:, None]
        slopes = (ordered[k][None, :] - ordered) / gap
        return middle(ascending(jnp.where(other[:, None], slopes, jnp.inf)), m - 1)

    slopes = lax.map(median_slope, index)
    return middle(ascending(jnp.where((index < m)[:, None], slopes, jnp.inf)), m)


def ranks(x: Float[Array, "K C"], usable: Bool[Array, " K"]) -> Int[Array, "K C"]:
    """Count the usable values of the column that are less, or equal and of an earlier row."""
    row = jnp.arange(x.shape[0])[:, None]

    def add(j, count):
        counts = usable[j]
        less = x[j][None, :] < x
        tie = (x[j][None, :] == x) & (j < row)
        return count + (counts & (less | tie))

    return lax.fori_loop(0, x.shape[0], add, jnp.zeros(x.shape, jnp.int32))


def _std(w: Float[Array, "K C"], usable: Bool[Array, " K"]) -> Float[Array, " C"]:
    """The standard deviation of every column over the usable rows, with m − 1."""
    counted = usable.astype(w.dtype)
    zero = jnp.zeros(w.shape[1], w.dtype)
    m = jnp.maximum(jnp.sum(counted), 1)
    mean = tree.fold(zero, w, counted) / m
    return jnp.sqrt(tree.fold(zero, (w - mean) ** 2, counted) / jnp.maximum(m - 1, 1))


def _total(row: Tree) -> Float[Array, ""]:
    """The sum of all numbers of a tree."""
    return sum((jnp.sum(leaf) for leaf in jax.tree.leaves(row)), start=jnp.zeros(()))
