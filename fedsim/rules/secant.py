"""The direct form of L-BFGS: products with a matrix from differences of models and of updates."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.tree import Tree

LEAST_CURVATURE = 1e-8  # of ⟨s, y⟩ / (‖s‖ ‖y‖)


class Pairs(NamedTuple):
    """The last W pairs, the newest last; zeros where there are fewer."""

    s: Tree  # [W, ...] differences of models, scaled to length 1
    y: Tree  # [W, ...] differences of negative updates, scaled by the same factor


class Curvature(NamedTuple):
    """The matrix σ I + Σ (−a aᵀ/c + y yᵀ/d), with a summand for every pair."""

    scale: Float[Array, ""]  # σ
    a: Tree  # [W, ...]
    y: Tree  # [W, ...]
    c: Float[Array, " W"]
    d: Float[Array, " W"]


def with_pair(pairs: Pairs, s: Tree, y: Tree) -> Pairs:
    """Add a pair in place of the oldest, unless its curvature ⟨s, y⟩ is not positive."""
    length = tree.norm(s)
    change = tree.norm(y)
    curved = _dot(s, y) > LEAST_CURVATURE * length * change
    inverse = 1 / jnp.where(curved, length, 1)

    def push(rows, row):
        return jnp.concatenate([rows[1:], (row * inverse.astype(row.dtype))[None]])

    pushed = Pairs(jax.tree.map(push, pairs.s, s), jax.tree.map(push, pairs.y, y))
    return tree.select(curved, pushed, pairs)


def curvature(pairs: Pairs) -> Curvature:
    """Return the matrix B of all pairs.

    B ← B − B s sᵀ B/(sᵀ B s) + y yᵀ/(yᵀ s), pair by pair from σ I.
    """
    d = lax.map(lambda pair: _dot(*pair), pairs)
    W = d.shape[0]
    start = Curvature(
        scale=d[-1],
        a=tree.zeros_like(pairs.s),
        y=tree.zeros_like(pairs.y),
        c=jnp.zeros(W, d.dtype),
        d=d,
    )

    def add(k, matrix: Curvature) -> Curvature:
        s = tree.take(pairs.s, k)
        a = product(matrix, s)
        c = _dot(s, a)
        put = lambda stack, row: jax.tree.map(lambda leaf, x: leaf.at[k].set(x), stack, row)
        filled = d[k] > 0
        y = tree.select(filled, put(matrix.y, tree.take(pairs.y, k)), matrix.y)
        a = tree.select(filled, put(matrix.a, a), matrix.a)
        return matrix._replace(a=a, y=y, c=matrix.c.at[k].set(c))

    return lax.fori_loop(0, W, add, start)


def product(matrix: Curvature, v: Tree) -> Tree:
    """Return B v."""

    def coefficients(rows: Tree, weights: Array) -> Array:
        return lax.map(lambda row: _dot(row, v), rows) / jnp.where(weights > 0, weights, jnp.inf)

    def combine(w: Array, leaf: Array) -> Array:
        return jnp.tensordot(w.astype(leaf.dtype), leaf, 1, precision=lax.Precision.HIGHEST)

    along_a = coefficients(matrix.a, matrix.c)
    along_y = coefficients(matrix.y, matrix.d)

    def of_leaf(x: Array, a: Array, y: Array) -> Array:
        return matrix.scale.astype(x.dtype) * x - combine(along_a, a) + combine(along_y, y)

    return jax.tree.map(of_leaf, v, matrix.a, matrix.y)


def _dot(a: Tree, b: Tree) -> Float[Array, ""]:
    """The inner product of two trees."""
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return sum((jnp.sum(x * y) for x, y in leaves), start=jnp.zeros(()))
