"""What differences of models did to updates, kept for the product with their matrix (L-BFGS, in its direct form)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.tree import Tree

LEAST_CURVATURE = 1e-8  # of ⟨s, y⟩ over ‖s‖ ‖y‖


class Pairs(NamedTuple):
    """The last W pairs, the newest last; zeros where there are fewer."""

    s: Tree  # [W, ...] differences of models, of length 1
    y: Tree  # [W, ...] what the negative update changed by, over the same length


class Curvature(NamedTuple):
    """A pair's part of the matrix: −a aᵀ/c + y yᵀ/d."""

    scale: Float[Array, ""]  # σ of the matrix σ I that the pairs change
    a: Tree  # [W, ...]
    y: Tree  # [W, ...]
    c: Float[Array, " W"]
    d: Float[Array, " W"]


def no_pairs(params: Tree, W: int) -> Pairs:
    """W places."""
    zeros = lambda: jax.tree.map(lambda p: jnp.zeros((W, *p.shape), p.dtype), params)
    return Pairs(zeros(), zeros())


def with_pair(pairs: Pairs, s: Tree, y: Tree) -> Pairs:
    """The pairs with one more, in place of the oldest; the same where its curvature ⟨s, y⟩ is not positive."""
    length, change = tree.norm(s), tree.norm(y)
    curved = _dot(s, y) > LEAST_CURVATURE * length * change
    inverse = 1 / jnp.where(curved, length, 1)
    push = lambda old, new: jnp.concatenate([old[1:], (new * inverse.astype(new.dtype))[None]])
    pushed = Pairs(jax.tree.map(push, pairs.s, s), jax.tree.map(push, pairs.y, y))
    return tree.select(curved, pushed, pairs)


def curvature(pairs: Pairs) -> Curvature:
    """B of all pairs, ready for products: B ← B − B s sᵀ B/(sᵀ B s) + y yᵀ/(yᵀ s), pair by pair from σ I."""
    d = lax.map(lambda pair: _dot(*pair), pairs)
    W = d.shape[0]
    begun = Curvature(
        d[-1], tree.zeros_like(pairs.s), tree.zeros_like(pairs.y), jnp.zeros(W, d.dtype), d
    )

    def add(k, matrix: Curvature) -> Curvature:
        s = tree.take(pairs.s, k)
        a = product(matrix, s)
        c = _dot(s, a)
        put = lambda stack, row: jax.tree.map(lambda leaf, x: leaf.at[k].set(x), stack, row)
        known = d[k] > 0
        y = tree.select(known, put(matrix.y, tree.take(pairs.y, k)), matrix.y)
        return matrix._replace(
            a=tree.select(known, put(matrix.a, a), matrix.a), y=y, c=matrix.c.at[k].set(c)
        )

    return lax.fori_loop(0, W, add, begun)


def product(matrix: Curvature, v: Tree) -> Tree:
    """B v."""

    def coefficients(rows: Tree, weights: Array) -> Array:
        return lax.map(lambda row: _dot(row, v), rows) / jnp.where(weights > 0, weights, jnp.inf)

    lost, won = coefficients(matrix.a, matrix.c), coefficients(matrix.y, matrix.d)
    combine = lambda w, leaf: jnp.tensordot(
        w.astype(leaf.dtype), leaf, 1, precision=lax.Precision.HIGHEST
    )
    of_leaf = lambda x, a, y: matrix.scale.astype(x.dtype) * x - combine(lost, a) + combine(won, y)
    return jax.tree.map(of_leaf, v, matrix.a, matrix.y)


def _dot(a: Tree, b: Tree) -> Float[Array, ""]:
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return sum((jnp.sum(x * y) for x, y in leaves), start=jnp.zeros(()))
