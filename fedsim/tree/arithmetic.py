"""Arithmetic on PyTrees and on stacks of them; `fold` is the one aggregation primitive."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

Tree = Any  # any PyTree of arrays


def stack(trees: Sequence[Tree]) -> Tree:
    """K trees with leaves `[...]` -> one tree with leaves `[K, ...]`.

    Raises:
      ValueError: when the list is empty, or a tree differs from the first in structure, shape or
        dtype.

    >>> stack([{"w": jnp.zeros(3)}, {"w": jnp.ones(3)}])["w"].shape
    (2, 3)
    """
    if not trees:
        raise ValueError("stack: no trees to stack; a stack needs at least one client")
    for k, tree in enumerate(trees[1:], 1):
        _require_equal_shapes(trees[0], tree, f"tree {k}")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def unstack(stacked: Tree) -> list[Tree]:
    """One tree with leaves `[K, ...]` -> K trees: the inverse of `stack`.

    >>> [t["w"].tolist() for t in unstack({"w": jnp.arange(4.0).reshape(2, 2)})]
    [[0.0, 1.0], [2.0, 3.0]]
    """
    return [jax.tree.map(lambda leaf, k=k: leaf[k], stacked) for k in range(rows(stacked))]


def rows(stacked: Tree) -> int:
    """Length K of the leading axis that all leaves of a stack share.

    Raises:
      ValueError: when a leaf has no leading axis, when two leaves disagree, or when there is no
        leaf.
    """
    leaves = jax.tree_util.tree_leaves_with_path(stacked)
    if not leaves:
        raise ValueError("a stack without leaves has no client axis")

    for path, leaf in leaves:
        if not leaf.shape:
            text = "a stack has clients on its leading axis"
            raise ValueError(f"leaf {_name(path)} is a scalar; {text}")
        first_path, first_leaf = leaves[0]
        if leaf.shape[0] != first_leaf.shape[0]:
            first = f"leaf {_name(first_path)} has {first_leaf.shape[0]}"
            raise ValueError(f"leaf {_name(path)} has {leaf.shape[0]} rows, {first}")
    return leaves[0][1].shape[0]


def fold(total: Tree, stacked: Tree, weight: Float[Array, " K"]) -> Tree:
    """`total + Σ_k weight[k]·row_k`, row by row in slot order: the one aggregation primitive.

    A sequential left fold, so that a sum cut into blocks has the bits of the full sum. Rows of
    weight 0 or less are left out by `where`, never by multiplication: whatever an absent row holds
    (NaN too) cannot leak. The sum has the type of `total`, float32 or wider: what is narrower is
    widened where it enters, and not here, where it would depend on the blocks. Integers wrap, which
    is exact for whole weights: a sum modulo 2³² in leaves of 32 bits, whatever the order. Cost:
    O(K·D), as fast as a `tensordot`.
    """

    def add(k, total):
        w = weight[k]
        return jax.tree.map(
            lambda a, r: a + jnp.where(w > 0, w.astype(a.dtype) * r[k], 0), total, stacked
        )

    return lax.fori_loop(0, weight.shape[0], add, total)


def weighted_sum(stacked: Tree, weights: Float[Array, " K"]) -> Tree:
    """`Σ_k weights[k]·row_k` of a stack with leaves `[K, ...]` -> one tree with leaves `[...]`.

    Raises:
      ValueError: when the number of weights is not K, or the leaves disagree about K.

    >>> weighted_sum({"w": jnp.array([[1.0], [10.0]])}, jnp.array([2.0, 3.0]))["w"].tolist()
    [32.0]
    """
    K = rows(stacked)
    if jnp.shape(weights) != (K,):
        text = f"{K} rows need weights of shape ({K},)"
        raise ValueError(f"{text}, found {jnp.shape(weights)}")
    return fold(zero_row(stacked), stacked, weights)


def divide(total: Tree, weight: Float[Array, "..."]) -> Tree:
    """`total / weight`, and zero where the weight is zero: when nobody reports, nothing moves.

    The weight is a number, or has one for every number of the leaves.
    """
    safe = jnp.where(weight > 0, weight, 1)
    total = floats(total)
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
    """`Σ_k weights[k]`, in the order and with the primitive that sums rows."""
    return fold(jnp.zeros((), weights.dtype), jnp.ones_like(weights), weights)


def add(a: Tree, b: Tree) -> Tree:
    """`a + b`, leaf by leaf, in the dtype of `a`."""
    return jax.tree.map(lambda x, y: (x + y).astype(x.dtype), a, b)


def subtract(a: Tree, b: Tree) -> Tree:
    """`a − b`, leaf by leaf."""
    return jax.tree.map(jnp.subtract, a, b)


def scale(a: Tree, factor: Any) -> Tree:
    """`factor · a`, in the dtype of `a`; of integers in floats."""
    return jax.tree.map(lambda x: x * jnp.asarray(factor, x.dtype), floats(a))


def floats(tree: Tree) -> Tree:
    """The tree with its integers as floats of the default type."""

    def as_float(leaf):
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return leaf.astype(jnp.result_type(float))
        return leaf

    return jax.tree.map(as_float, tree)


def zeros_like(tree: Tree) -> Tree:
    """The zero of a tree's vector space."""
    return jax.tree.map(jnp.zeros_like, tree)


def row_shapes(stacked: Tree) -> Tree:
    """The shapes of a stack's rows: `[K, ...]` -> `[...]`, of arrays or of shapes."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), stacked)


def zero_row(stacked: Tree) -> Tree:
    """The zero of the vector space of a stack's rows."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), stacked)


def along(values: Array, leaf: Array) -> Array:
    """A number for each row `[K]`, in the shape that multiplies a leaf `[K, ...]`."""
    ones = (1,) * (leaf.ndim - 1)
    return values.reshape(-1, *ones)


def select(condition: Bool[Array, "..."], yes: Tree, no: Tree) -> Tree:
    """`where` over trees; a condition of shape `[K]` chooses row by row of two stacks."""

    def choose(y, n):
        ones = (1,) * (y.ndim - condition.ndim)
        return jnp.where(condition.reshape(condition.shape + ones), y, n)

    return jax.tree.map(choose, yes, no)


def take(stacked: Tree, index: Any) -> Tree:
    """Rows `index` of a stack: a number takes one tree, an array `[J]` a stack of J."""
    return jax.tree.map(lambda leaf: leaf[index], stacked)


def concatenate(stacks: Sequence[Tree]) -> Tree:
    """The rows of several stacks as one stack; a single stack is returned unchanged."""
    if len(stacks) == 1:
        return stacks[0]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *stacks)


def split(stacked: Tree, parts: int) -> list[Tree]:
    """A stack as several stacks of equal length."""

    def part(i: int) -> Tree:
        return jax.tree.map(lambda leaf: jnp.split(leaf, parts)[i], stacked)

    return [part(i) for i in range(parts)]


def put(stacked: Tree, index: Any, new: Tree) -> Tree:
    """The stack with `new` in its rows `index`; an index beyond the last row writes nothing."""
    return jax.tree.map(lambda leaf, n: leaf.at[index].set(n, mode="drop"), stacked, new)


def finite_rows(stacked: Tree, K: int) -> Bool[Array, " K"]:
    """Which of the K rows are finite in all leaves.

    Without their signs, the bits of finite numbers are integers below those of infinity: the
    largest of them decides.
    """
    finite = jnp.ones(K, bool)
    for leaf in jax.tree.leaves(stacked):
        if not leaf.size or not jnp.issubdtype(leaf.dtype, jnp.floating):
            continue
        rows = leaf.reshape(K, -1)
        unsigned = jnp.dtype(f"uint{8 * rows.dtype.itemsize}")
        without_sign = unsigned.type(jnp.iinfo(unsigned).max // 2)
        bits = lax.bitcast_convert_type(rows, unsigned) & without_sign
        infinity = lax.bitcast_convert_type(jnp.array(jnp.inf, rows.dtype), unsigned)

        pieces, rest = in_pieces(bits)
        largest = jnp.max(pieces, axis=1)
        finite &= jnp.all(largest < infinity, axis=1) & jnp.all(rest < infinity, axis=1)
    return finite


def count(mask: Bool[Array, " d"]) -> Int[Array, ""]:
    pieces, rest = in_pieces(mask[None])
    by_place = lax.optimization_barrier(jnp.sum(pieces[0], axis=0, dtype=jnp.int32))
    return jnp.sum(by_place, dtype=jnp.int32) + jnp.sum(rest, dtype=jnp.int32)


def in_pieces(
    rows: Shaped[Array, "K D"],
) -> tuple[Shaped[Array, "K n length"], Shaped[Array, "K rest"]]:
    """Cut rows into at most 31 pieces of equal length, and a rest that is shorter.

    A reduction over pieces finds the results for all their places side by side. On a CPU XLA reads
    long rows 1.5 to 3 times as fast so as when it reduces or multiplies them directly.
    """
    K, D = rows.shape
    length = 1 << max(D.bit_length() - 5, 0)
    whole = D // length * length
    return rows[:, :whole].reshape(K, -1, length), rows[:, whole:]


def nbytes(tree: Tree) -> int:
    """Bytes of a tree of arrays or shapes in memory; Python's integers, which do not overflow."""
    itemsize = lambda leaf: getattr(leaf.dtype, "itemsize", 8)  # 8: of a random key
    return sum(math.prod(leaf.shape) * itemsize(leaf) for leaf in jax.tree.leaves(tree))


def payload_bytes(tree: Tree) -> int:
    """Exact bytes of a tree's leaves as they travel (shapes or arrays).

    A float travels in at most 32 bits, also where float64 computes it.
    """

    def leaf_bytes(leaf) -> int:
        itemsize = leaf.dtype.itemsize
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            itemsize = min(itemsize, 4)
        return int(leaf.size) * itemsize

    return sum(leaf_bytes(leaf) for leaf in jax.tree.leaves(tree))


def _require_equal_shapes(first: Tree, tree: Tree, name: str) -> None:
    """Refuse a tree that differs from the first one in structure, shape or dtype."""
    first_structure = jax.tree.structure(first)
    structure = jax.tree.structure(tree)
    if structure != first_structure:
        raise ValueError(f"{name} has structure {structure}, the first {first_structure}")

    first_leaves = jax.tree_util.tree_leaves_with_path(first)
    for (path, a), b in zip(first_leaves, jax.tree.leaves(tree), strict=True):
        leaf = f"{name}: leaf {_name(path)}"
        if jnp.shape(a) != jnp.shape(b):
            raise ValueError(f"{leaf} has shape {jnp.shape(b)}, the first {jnp.shape(a)}")
        if jnp.result_type(a) != jnp.result_type(b):
            raise ValueError(f"{leaf} is {jnp.result_type(b)}, the first {jnp.result_type(a)}")


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path) or "(the tree itself)"
