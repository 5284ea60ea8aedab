"""Arithmetic on PyTrees and on stacks of them.

A *stack* is a struct of arrays: one PyTree whose every leaf carries a leading client axis `[K, ...]`. It is what a list
of client trees becomes (`stack`), what `jax.vmap` maps over, and what `weighted_sum` collapses back to one tree.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
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
    return fold(zero_row(stacked), stacked, weights)


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


def scale(a: Tree, factor: Any) -> Tree:
    """`factor · a`, in the dtype of `a`."""
    return jax.tree.map(lambda x: x * jnp.asarray(factor, x.dtype), a)


def mix(a: Tree, b: Tree, share: Any) -> Tree:
    """(1 − share)·a + share·b, with one product alone: of two, a compiler may contract the one or the other."""
    return jax.tree.map(lambda a, b: a + share * (b - a), a, b)


def zeros_like(tree: Tree) -> Tree:
    """The zero of a tree's vector space."""
    return jax.tree.map(jnp.zeros_like, tree)


def zero_row(stacked: Tree) -> Tree:
    """The zero of the vector space that a stack's rows are of."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), stacked)


def select(condition: Bool[Array, "..."], yes: Tree, no: Tree) -> Tree:
    """`where` over whole trees; a condition of shape `[K]` chooses row by row of two stacks."""

    def choose(y, n):
        return jnp.where(condition.reshape(condition.shape + (1,) * (y.ndim - condition.ndim)), y, n)

    return jax.tree.map(choose, yes, no)


def take(stacked: Tree, index: Any) -> Tree:
    """Rows `index` of a stack: a number takes one tree, an array `[J]` a stack of J."""
    return jax.tree.map(lambda leaf: leaf[index], stacked)


def concatenate(stacks: Sequence[Tree]) -> Tree:
    """The rows of several stacks, one after another; a single one is handed through."""
    return stacks[0] if len(stacks) == 1 else jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *stacks)


def split(stacked: Tree, parts: int) -> list[Tree]:
    """A stack as so many of equal length."""
    return [jax.tree.map(lambda leaf, i=i: jnp.split(leaf, parts)[i], stacked) for i in range(parts)]


def put(stacked: Tree, index: Any, new: Tree) -> Tree:
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
    scale = jnp.clip(largest, tiny, 1 / tiny)
    inverse = 1 / scale  # a quotient would be turned into this product in some programs and not in others
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
    """`‖row_k − origin‖₂` of every row of a stack, one after another: XLA adds up a row by how many it has beside it."""
    return lax.map(lambda row: norm(subtract(row, origin)), stacked)


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


def over_blocks(step: Callable[..., Tree], state: Tree, stacked: Tree, width: int, dtype: Any) -> Tree:
    """`state ← step(b, block [K, width], new [width], state)` over all columns of a stack, in one loop over its leaves.

    The last block of a leaf ends with it, and starts with columns of the block before it, or ends with zeros where there
    is none: `new` says which columns are met for the first time. One loop: `step` is compiled once.
    """
    leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(stacked) if leaf.size]
    starts = block_starts(leaves, width)

    def cut(leaf, start):
        D = leaf.shape[1]

        def block(b):
            ideal = (b - start) * width
            first = jnp.clip(ideal, 0, max(D - width, 0))
            column = first + jnp.arange(width)
            part = lax.dynamic_slice_in_dim(leaf, first, min(width, D), 1).astype(dtype)
            return jnp.pad(part, ((0, 0), (0, max(width - D, 0)))), (column >= ideal) & (column < D)

        return block

    cuts = [cut(leaf, start) for leaf, start in zip(leaves, starts, strict=False)]

    def body(b, state):
        leaf = jnp.sum(b >= jnp.array(starts[:-1])) - 1
        return step(b, *lax.switch(leaf, cuts, b), state)

    return lax.fori_loop(0, starts[-1], body, state) if cuts else state


def block_starts(leaves: Sequence[Array], width: int) -> list[int]:
    """Number of the first block of every leaf `[K, D]`, and of all blocks."""
    return list(itertools.accumulate((-(-leaf.shape[1] // width) for leaf in leaves), initial=0))


def squared_distances(stacked: Tree, present: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """`‖row_i − row_j‖₂²` of all pairs; +∞ where a row is absent, else finite.

    By the products of centred rows, `‖y_i‖² + ‖y_j‖² − 2 y_i·y_j`, where no pair loses its digits in them: rows that meet
    an outlier, or hardly differ, are subtracted instead, which takes some times as long. What overflows or is NaN becomes
    the largest float, so that present rows stay nearer than absent ones. Absent rows change no bit.
    """
    dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(stacked))
    products = gram(stacked, present)
    squares = jnp.diagonal(products)
    sums = squares[:, None] + squares[None, :]
    total = sums - 2 * products
    pair = present[:, None] & present[None, :] & ~jnp.eye(present.shape[0], dtype=bool)
    reliable = jnp.all(jnp.where(pair, (total > 1e-2 * sums) & jnp.isfinite(sums), True))
    total = lax.cond(reliable, lambda: jnp.where(pair, total, 0), lambda: _squared_differences(stacked, present))
    total = jnp.where(jnp.isfinite(total), total, jnp.finfo(dtype).max)
    return jnp.where(present[:, None] & present[None, :], total, jnp.inf)


def gram(stacked: Tree, present: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """Products of all pairs of rows, centred on the mean of the present ones; 0 where a row is absent.

    Bits of a matrix product depend on its shape and on where a row stands. So the present rows come first, and every
    product is one of tiles of the same shape, whatever K is; those below the diagonal are not computed.
    """
    K, side = present.shape[0], 20
    dtype, order = jnp.result_type(jnp.float32, *jax.tree.leaves(stacked)), jnp.argsort(~present, stable=True)
    tiles = -(-K // side)
    pairs = [(i, j) for i in range(tiles) for j in range(i, tiles)]
    m = jnp.maximum(jnp.sum(present), 1).astype(dtype)

    def add(b, block, new, total):
        del b
        centre = fold(jnp.zeros(block.shape[1], dtype), block, present.astype(dtype)) / m
        y = jnp.where(present[:, None] & new[None, :], block - centre, 0)[order]
        y = jnp.pad(y, ((0, tiles * side - K), (0, 0))).reshape(tiles, side, -1)
        times = lambda a, b: jnp.matmul(a, b.T, precision=lax.Precision.HIGHEST)
        return [t + times(y[i], y[j]) for t, (i, j) in zip(total, pairs, strict=True)]

    parts = over_blocks(add, [jnp.zeros((side, side), dtype) for _ in pairs], stacked, 4096, dtype)
    whole = jnp.zeros((tiles, tiles, side, side), dtype)
    for part, (i, j) in zip(parts, pairs, strict=True):
        whole = whole.at[j, i].set(part.T).at[i, j].set(part)
    whole = whole.swapaxes(1, 2).reshape(tiles * side, tiles * side)
    place = jnp.argsort(order)
    return whole[place][:, place]


def _squared_differences(stacked: Tree, present: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """Squared distances, summed over blocks of columns whose width does not depend on K."""
    K, dtype = present.shape[0], jnp.result_type(jnp.float32, *jax.tree.leaves(stacked))

    def add(b, block, new, total):
        del b
        block = jnp.where(new[None, :], block, 0)
        return total + jnp.sum(jnp.square(block[:, None, :] - block[None, :, :]), -1)

    return over_blocks(add, jnp.zeros((K, K), dtype), stacked, 512, dtype)
