"""Low-rank pairs in a tree: their sums, norms and nearest pairs, from the factors alone."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import LOW_RANK

A, B = LOW_RANK

matmul = lambda a, b: jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


class Pair(NamedTuple):
    """The matrix A B in factors."""

    A: Float[Array, "*K m r"]
    B: Float[Array, "*K r n"]


def is_pair(node: Any) -> bool:
    """Whether a node of a tree holds both factors."""
    return isinstance(node, dict) and node.get(A) is not None and node.get(B) is not None


def pairs_of(params: Tree) -> list[Pair]:
    """The pairs of a tree, or of a stack, in its order."""
    nodes = jax.tree.leaves(params, is_leaf=is_pair)
    return [Pair(node[A], node[B]) for node in nodes if is_pair(node)]


def with_pairs(params: Tree, pairs: list[Pair]) -> Tree:
    """The tree with other pairs, in its order."""
    remaining = iter(pairs)

    def put(node):
        if not is_pair(node):
            return node
        pair = next(remaining)
        return {**node, A: pair.A, B: pair.B}

    return jax.tree.map(put, params, is_leaf=is_pair)


def sum_of_products(pairs: Pair, p: Float[Array, " K"]) -> Pair:
    """Σ_k p_k A_k B_k of a stack, as one product of matrices: `[m, K·r]` times `[K·r, n]`."""
    weighted = p[:, None, None].astype(pairs.A.dtype) * pairs.A
    side_by_side = jnp.moveaxis(weighted, 0, 1)
    _, m, _ = pairs.A.shape
    _, _, n = pairs.B.shape
    return Pair(side_by_side.reshape(m, -1), pairs.B.reshape(-1, n))


def nearest(product: Pair, like: Pair) -> Pair:
    """The pair of the rank of `like` that is nearest to a product; its A is orthonormal."""
    rank = like.A.shape[1]
    left, R_left = jnp.linalg.qr(product.A)
    right, R_right = jnp.linalg.qr(product.B.T)
    U, singular, Vt = jnp.linalg.svd(matmul(R_left, R_right.T), full_matrices=False)
    A_nearest = matmul(left, U[:, :rank])
    B_nearest = singular[:rank, None] * matmul(Vt[:rank], right.T)

    # Singular vectors have no sign of their own: the largest entry of a column of A is positive.
    largest = jnp.argmax(jnp.abs(A_nearest), axis=0)
    is_negative = A_nearest[largest, jnp.arange(rank)] < 0
    signs = jnp.where(is_negative, -1, 1).astype(A_nearest.dtype)
    return Pair(signs * A_nearest, signs[:, None] * B_nearest)


def relative_error(made: list[Pair], sums: list[Pair]) -> Float[Array, ""]:
    """‖made − sums‖/‖sums‖ over all pairs; 0 where the sums are zero."""
    errors = []
    norms = []
    for pair, S in zip(made, sums, strict=True):
        left = jnp.concatenate([pair.A, -S.A], axis=1)
        right = jnp.concatenate([pair.B, S.B], axis=0)
        errors.append(_norm(Pair(left, right)))
        norms.append(_norm(S))
    error = jnp.linalg.norm(jnp.stack(errors))
    norm = jnp.linalg.norm(jnp.stack(norms))
    return jnp.where(norm > 0, error / jnp.where(norm > 0, norm, 1), 0)


def _norm(product: Pair) -> Float[Array, ""]:
    """‖A B‖ of a product that is not made: of triangles R with A = Q R, which Q does not change."""
    R_left = jnp.linalg.qr(product.A, mode="r")
    R_right = jnp.linalg.qr(product.B.T, mode="r")
    return jnp.linalg.norm(matmul(R_left, R_right.T))


def by_norms(starts: list[Pair], moves: list[Pair], w: Float[Array, " K"]) -> Float[Array, " K"]:
    """Weights times ‖A_k B_k‖ of all targets together; the weights where all norms are zero."""

    def norm(moves: list[Pair]) -> Float[Array, ""]:
        # Added here, where it is not contracted with what a stage does to a row.
        squares = [_norm(pair) ** 2 for pair in tree.add(starts, moves)]
        return jnp.sqrt(sum(squares)).astype(w.dtype)

    if not starts:
        return w
    by_norm = jnp.where(w > 0, w * lax.map(norm, moves), 0)
    return jnp.where(jnp.any(by_norm > 0), by_norm, w)
