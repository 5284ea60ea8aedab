"""Arithmetic whose bits do not depend on the program that it is compiled into.

The same expression is part of many programs: with more or fewer clients, in other blocks, fused
with other operations. XLA may round it differently in each of them, in five ways; what must come
out alike avoids them:

1. Of two products that are added, either is contracted into a fused multiply-add, which rounds
   once. Here: sums have a single product (`mix`).
2. A quotient by a number that many elements share becomes a product with its inverse in some
   programs. Here: always the product (`over`, `scaled_norm`).
3. The terms of a row are added in an order that depends on how many rows are reduced with it. Here:
   row by row (`norms`), or term by term (`fold`).
4. A product with one matrix for all clients is another operation than a product with a matrix for
   each, and adds in another order. Here: a client whose hooks multiply shared arrays starts with a
   copy of them, batched like its model.
5. A matrix product adds in an order that depends on its shape, and on the position of a row. Here:
   tiles whose shape the number of rows that count decides, with these rows first (`gram`).
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim.tree.arithmetic import Tree, finite_rows, scale, subtract

SQUARES = (1e-30, 1e36)  # sums of squares that have neither lost digits nor overflowed
PARTIAL_SUMS = 1024  # of a long sum, which vector instructions add side by side


def mix(a: Tree, b: Tree, share: Any) -> Tree:
    """`(1 − share)·a + share·b`, with a single product (1)."""
    return jax.tree.map(lambda a, b: a + share * (b - a), a, b)


def over(total: Tree, n: Any) -> Tree:
    """`total / n` as the product `total · (1/n)`, and zero where n = 0 (2)."""
    return scale(total, jnp.where(n > 0, 1 / jnp.where(n > 0, n, 1), 0))


def scaled_norm(tree: Tree) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """`‖tree‖₂` over all leaves as a product of two numbers, a scale and the norm divided by it.

    The scale is about the largest magnitude, so that squares do not overflow, as those of 1e20 do
    in float32. A tree that is not finite has a norm that is not.
    """
    filled_leaves = [leaf for leaf in jax.tree.leaves(tree) if leaf.size]
    leaves = [leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)) for leaf in filled_leaves]
    largest = functools.reduce(jnp.maximum, [jnp.max(jnp.abs(leaf)) for leaf in leaves])
    tiny = jnp.finfo(largest.dtype).tiny
    scale = jnp.clip(largest, tiny, 1 / tiny)
    inverse = 1 / scale  # (2)
    squares = functools.reduce(jnp.add, [jnp.sum(jnp.square(leaf * inverse)) for leaf in leaves])
    return scale, jnp.sqrt(squares)


def norm(tree: Tree) -> Float[Array, ""]:
    """`‖tree‖₂` over all leaves, by `scaled_norm`.

    >>> round(float(norm({"w": jnp.array([3e30, 0.0]), "b": jnp.array(4e30)})) / 1e30, 6)
    5.0
    """
    scale, rest = scaled_norm(tree)
    return scale * rest


def norms(stacked: Tree, origin: Tree) -> Float[Array, " K"]:
    """`‖row_k − origin‖₂` of every row of a stack, row by row (3)."""
    return lax.map(lambda row: norm(subtract(row, origin)), stacked)


def distances(
    stacked: Tree, origin: Tree, present: Bool[Array, " K"]
) -> tuple[Float[Array, " K"], Bool[Array, " K"]]:
    """`‖row_k − origin‖₂` of every row in half of the time of `norms`, and which rows are usable.

    The squares are added as they are. Where the sum of a present row is out of range, or not
    finite, the distances are those of `norms`.

    Returns:
      Distances; the present rows that are finite.
    """

    def square(row: Tree) -> Float[Array, ""]:
        leaves = [leaf for leaf in jax.tree.leaves(subtract(row, origin)) if leaf.size]
        return functools.reduce(jnp.add, [_sum_of_squares(leaf.ravel()) for leaf in leaves])

    squares = lax.map(square, stacked)
    in_range = (squares > SQUARES[0]) & (squares < SQUARES[1])
    return lax.cond(
        jnp.all(in_range | ~present),
        lambda: (jnp.sqrt(squares), present),
        lambda: (norms(stacked, origin), present & finite_rows(stacked, len(present))),
    )


def _sum_of_squares(x: Float[Array, " d"]) -> Float[Array, ""]:
    squares = jnp.square(x.astype(jnp.promote_types(x.dtype, jnp.float32)))
    whole = len(x) // PARTIAL_SUMS * PARTIAL_SUMS
    partial = jnp.sum(squares[:whole].reshape(-1, PARTIAL_SUMS), axis=0)
    return jnp.sum(partial) + jnp.sum(squares[whole:])


def clipped(delta: Tree, length: Any) -> Tree:
    """A tree that is longer than `length` shortened to it, any other tree as it is.

    A tree that is not finite stays so.
    """
    scale, rest = scaled_norm(delta)

    # Two factors: their product may overflow, and its inverse underflow.
    shorter = lambda x: x / scale.astype(x.dtype) * (length / rest).astype(x.dtype)
    return jax.tree.map(
        lambda x: jnp.where(scale * rest > length, shorter(x), x),
        delta,
    )
