"""Arithmetic on PyTrees and on stacks of them.

A *stack* is a struct of arrays: one PyTree whose every leaf carries a leading client axis `[K, ...]`. It is what a list
of client trees becomes (`stack`), what `jax.vmap` maps over, and what `weighted_sum` collapses back to one tree.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

Tree = Any  # any PyTree of arrays


def stack(trees: Sequence[Tree]) -> Tree:
    """List of structs -> struct of arrays: `K` trees of leaves `[...]` become one tree of leaves `[K, ...]`.

    Raises:
      ValueError: when the list is empty, or a tree differs from the first in structure, shape or dtype.

    >>> stack([{"w": jnp.zeros(3)}, {"w": jnp.ones(3)}])["w"].shape
    (2, 3)
    """
    if not trees:
        raise ValueError("stack: no trees to stack; a stack needs at least one client")
    for k, tree in enumerate(trees[1:], 1):
        _demand_equal_shapes(trees[0], tree, f"tree {k}")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def unstack(stacked: Tree) -> list[Tree]:
    """Struct of arrays -> list of structs: the inverse of `stack`.

    >>> [t["w"].tolist() for t in unstack({"w": jnp.arange(4.0).reshape(2, 2)})]
    [[0.0, 1.0], [2.0, 3.0]]
    """
    return [jax.tree.map(lambda leaf, k=k: leaf[k], stacked) for k in range(rows(stacked))]


def rows(stacked: Tree) -> int:
    """Length K of the leading axis that all leaves of a stack share.

    Raises:
      ValueError: when a leaf has no leading axis, when two leaves disagree, or when there is no leaf.
    """
    leaves = jax.tree_util.tree_leaves_with_path(stacked)
    if not leaves:
        raise ValueError("a stack without leaves has no client axis")
    lengths = {path: leaf.shape[:1] for path, leaf in leaves}
    for path, length in lengths.items():
        if not length:
            raise ValueError(f"leaf {_name(path)} is a scalar; a stack carries clients on its leading axis")
        if length != next(iter(lengths.values())):
            first = next(iter(lengths))
            raise ValueError(f"leaf {_name(path)} has {length[0]} rows, leaf {_name(first)} has {lengths[first][0]}")
    return next(iter(lengths.values()))[0]


def fold(total: Tree, stacked: Tree, weight: Float[Array, " K"]) -> Tree:
    """`total + Σ_k weight[k]·row_k`, one row after another in slot order: the one aggregation primitive.

    A sequential left fold, so that a sum cut into blocks has the bits of the whole sum. Rows of weight 0 are left out by
    `where`, never by multiplication: whatever an absent row holds (NaN too) cannot leak. Cost: O(K·D), as fast as a
    `tensordot`.
    """

    def add(k, total):
        w = weight[k]
        return jax.tree.map(lambda a, r: a + jnp.where(w > 0, w.astype(a.dtype) * r[k], 0), total, stacked)

    return lax.fori_loop(0, weight.shape[0], add, total)


def weighted_sum(stacked: Tree, weights: Float[Array, " K"]) -> Tree:
    """`Σ_k weights[k]·row_k` of a stack with leaves `[K, ...]` -> one tree with leaves `[...]`.

    Raises:
      ValueError: when the number of weights is not K, or the leaves disagree about K.

    >>> weighted_sum({"w": jnp.array([[1.0], [10.0]])}, jnp.array([2.0, 3.0]))["w"].tolist()
    [32.0]
    """
    if jnp.shape(weights) != (rows(stacked),):
        raise ValueError(f"{rows(stacked)} rows need weights of shape ({rows(stacked)},), found {jnp.shape(weights)}")
    return fold(jax.tree.map(lambda leaf: jnp.zeros_like(leaf[0]), stacked), stacked, weights)


def divide(total: Tree, weight: Float[Array, ""]) -> Tree:
    """`total / weight`, and zero where the weight is zero: when nobody reports, nothing moves."""
    safe = jnp.where(weight > 0, weight, 1)
    return jax.tree.map(lambda a: jnp.where(weight > 0, a / safe.astype(a.dtype), 0), total)


def weighted_mean(stacked: Tree, weights: Float[Array, " K"]) -> Tree:
    """`Σ_k w_k·row_k / Σ_k w_k`; zero total weight gives zero (nothing moves).

    >>> weighted_mean({"w": jnp.array([[1.0], [4.0]])}, jnp.array([2.0, 1.0]))["w"].tolist()
    [2.0]
    >>> weighted_mean({"w": jnp.array([[1.0], [jnp.nan]])}, jnp.array([0.0, 0.0]))["w"].tolist()
    [0.0]
    """
    return divide(weighted_sum(stacked, weights), sum_weights(weights))


def sum_weights(weights: Float[Array, " K"]) -> Float[Array, ""]:
    """`Σ_k weights[k]`, in the order and by the primitive that sums rows."""
    return fold(jnp.zeros((), weights.dtype), jnp.ones_like(weights), weights)


def add(a: Tree, b: Tree) -> Tree:
    """`a + b`, leaf by leaf, in the dtype of `a`."""
    return jax.tree.map(lambda x, y: (x + y).astype(x.dtype), a, b)


def subtract(a: Tree, b: Tree) -> Tree:
    """`a − b`, leaf by leaf."""
    return jax.tree.map(jnp.subtract, a, b)


def scale(a: Tree, factor) -> Tree:
    """`factor · a`, in the dtype of `a`."""
    return jax.tree.map(lambda x: x * jnp.asarray(factor, x.dtype), a)


def zeros_like(tree: Tree) -> Tree:
    """The zero of a tree's vector space."""
    return jax.tree.map(jnp.zeros_like, tree)


def select(condition: Bool[Array, "..."], yes: Tree, no: Tree) -> Tree:
    """`where` over whole trees; a condition of shape `[K]` chooses row by row of two stacks."""

    def choose(y, n):
        return jnp.where(condition.reshape(condition.shape + (1,) * (y.ndim - condition.ndim)), y, n)

    return jax.tree.map(choose, yes, no)


def take(stacked: Tree, index) -> Tree:
    """Rows `index` of a stack: a number takes one tree, an array `[J]` a stack of J."""
    return jax.tree.map(lambda leaf: leaf[index], stacked)


def put(stacked: Tree, index, new: Tree) -> Tree:
    """The stack with rows `index` replaced by those of `new`; an index beyond the last row writes nothing."""
    return jax.tree.map(lambda leaf, n: leaf.at[index].set(n, mode="drop"), stacked, new)


def finite_rows(stacked: Tree, K: int) -> Bool[Array, " K"]:
    """Which of the K rows are finite in all leaves."""
    ok = jnp.ones(K, bool)
    for leaf in jax.tree.leaves(stacked):
        ok &= jnp.isfinite(leaf).reshape(K, -1).all(1)
    return ok


def payload_bytes(tree: Tree) -> int:
    """Exact bytes of a tree's leaves, as it would travel (shapes or arrays)."""
    return sum(int(leaf.size) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _demand_equal_shapes(first: Tree, other: Tree, name: str) -> None:
    if jax.tree.structure(first) != jax.tree.structure(other):
        raise ValueError(f"{name} has structure {jax.tree.structure(other)}, the first {jax.tree.structure(first)}")
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(first), jax.tree.leaves(other), strict=True):
        if jnp.shape(a) != jnp.shape(b):
            raise ValueError(f"{name}: leaf {_name(path)} has shape {jnp.shape(b)}, the first {jnp.shape(a)}")
        if jnp.result_type(a) != jnp.result_type(b):
            raise ValueError(f"{name}: leaf {_name(path)} is {jnp.result_type(b)}, the first {jnp.result_type(a)}")


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path) or "(the tree itself)"


def scaled_norm(tree: Tree) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """`‖tree‖₂` over all leaves as a product of two numbers: about the largest magnitude, and the norm of what that leaves.

    Squares of 1e20 overflow float32; these do not. A tree that is not finite has a norm that is not.
    """
    leaves = [leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)) for leaf in jax.tree.leaves(tree) if leaf.size]
    largest = functools.reduce(jnp.maximum, [jnp.max(jnp.abs(leaf)) for leaf in leaves])
    tiny = jnp.finfo(largest.dtype).tiny
    scale = jnp.clip(largest, tiny, 1 / tiny)  # has an inverse: compilers multiply by that
    squares = functools.reduce(jnp.add, [jnp.sum(jnp.square(leaf / scale)) for leaf in leaves])
    return scale, jnp.sqrt(squares)


def norm(tree: Tree) -> Float[Array, ""]:
    """`‖tree‖₂` over all leaves, by `scaled_norm`.

    >>> round(float(norm({"w": jnp.array([3e30, 0.0]), "b": jnp.array(4e30)})) / 1e30, 6)
    5.0
    """
    scale, rest = scaled_norm(tree)
    return scale * rest


def norms(stacked: Tree, origin: Tree) -> Float[Array, " K"]:
    """`‖row_k − origin‖₂` of every row of a stack."""
    return jax.vmap(lambda row: norm(subtract(row, origin)))(stacked)


def by_columns(function: Callable, stacked: Tree, K: int) -> Tree:
    """`function([K, C]) -> [..., C]` over all columns of a stack, leaf by leaf and in blocks that stay in the cache.

    Blocks are cut from the stack one at a time, so memory stays at the stack, the result and one block. The last block
    overlaps the one before; `function` must treat each column on its own.
    """
    room = 2**15 if jax.default_backend() == "cpu" else 2**26  # an accelerator wants few, large operations

    def over(leaf):
        columns = leaf.reshape(K, -1)
        D = columns.shape[1]
        width = min(max(128, room // K), D)
        if width == D:
            whole = function(columns)
        else:
            shape = jax.eval_shape(function, jax.ShapeDtypeStruct((K, width), leaf.dtype))

            def block(b, out):
                first = jnp.minimum(b * width, D - width)
                done = function(lax.dynamic_slice_in_dim(columns, first, width, 1))
                return lax.dynamic_update_slice_in_dim(out, done, first, done.ndim - 1)

            out = jnp.zeros((*shape.shape[:-1], D), shape.dtype)
            whole = lax.fori_loop(0, -(-D // width), block, out)
        return whole.reshape(*whole.shape[:-1], *leaf.shape[1:])

    return jax.tree.map(over, stacked)


def sorted_rows(columns: Float[Array, "K C"], present: Bool[Array, " K"]) -> Float[Array, "K C"]:
    """Every column in ascending order; absent rows, and NaN, stand behind all others as +∞.

    Batcher's odd-even merge sort: each of its O(log² K) layers compares rows with their partners. The layers are data of
    one loop, which compiles in a moment whatever K is.
    """
    columns = jnp.where(present[:, None] & ~jnp.isnan(columns), columns, jnp.inf)
    layers = _sorting_network(columns.shape[0])
    if not len(layers):
        return columns
    rank = np.arange(columns.shape[0])
    partner, lower = jnp.asarray(layers), jnp.asarray(layers > rank)[:, :, None]

    def layer(i, x):
        y = x[partner[i]]  # a row without partner in this layer is its own
        return jnp.where(lower[i], jnp.minimum(x, y), jnp.maximum(x, y))

    return lax.fori_loop(0, len(layers), layer, columns)


@functools.cache
def _sorting_network(K: int) -> np.ndarray:
    """Partner of every row in every layer `[layers, K]`: Knuth's merge exchange of the next power of two, cut at K."""
    layers, run = [], 1
    while run < K:
        gap = run
        while gap:
            partner = np.arange(K)
            for start in range(gap % run, K - gap, 2 * gap):
                for low in range(start, min(start + gap, K - gap)):
                    if low // (2 * run) == (low + gap) // (2 * run):
                        partner[low], partner[low + gap] = low + gap, low
            layers.append(partner)
            gap //= 2
        run *= 2
    return np.array(layers, np.int32).reshape(-1, K)


def squared_distances(stacked: Tree, present: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """`‖row_i − row_j‖₂²` of all pairs, by differences; +∞ where a row is absent, else finite.

    The Gram form would be faster and wrong: rows that share a large mean, or meet an outlier, lose all digits. What
    overflows or is NaN becomes the largest float, so that present rows stay nearer than absent ones. Summed over blocks
    of columns whose width does not depend on K: absent rows change no bit.
    """
    K, width = present.shape[0], 512
    dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(stacked))
    total = jnp.zeros((K, K), dtype)
    for leaf in jax.tree.leaves(stacked):
        columns = leaf.reshape(K, -1)
        C = min(width, columns.shape[1])

        def add(b, total, columns=columns, C=C):
            first = jnp.minimum(b * C, columns.shape[1] - C)
            block = lax.dynamic_slice_in_dim(columns, first, C, 1).astype(dtype)
            block = jnp.where((first + jnp.arange(C) >= b * C)[None, :], block, 0)  # the last one overlaps
            return total + jnp.sum(jnp.square(block[:, None, :] - block[None, :, :]), -1)

        if C:
            total = lax.fori_loop(0, -(-columns.shape[1] // C), add, total)
    total = jnp.where(jnp.isfinite(total), total, jnp.finfo(dtype).max)
    return jnp.where(present[:, None] & present[None, :], total, jnp.inf)
