"""Loops over the columns of a stack, in blocks that stay in the cache; distances between rows."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim.machine import platform
from fedsim.tree.arithmetic import Tree, fold

# Rows of a tile of products. Large tiles are half as fast again, and compute more than is needed;
# they pay off where more rows than this are present.
SMALL_SIDE = 20
LARGE_SIDE = 100
FEW = 400
BLOCK = 2048  # columns of a block of products


def by_columns(
    function: Callable[[Array], Array], stacked: Tree, K: int, cached: int = 2**15
) -> Tree:
    """`function([K, C]) -> [..., C]` over all columns of a stack, in blocks that stay in the cache.

    It runs leaf by leaf. Blocks are cut from the stack one at a time, so that memory holds the
    stack, the result and one block. The last block overlaps the one before; `function` must treat
    each column on its own.

    Args:
      cached: the numbers of a block on a CPU.
    """
    numbers = cached if platform() == "cpu" else 2**26  # an accelerator wants few, large operations

    def apply(leaf):
        columns = leaf.reshape(K, -1)
        width = max(128, numbers // K)
        if width >= columns.shape[1]:
            result = function(columns)
        else:
            result = _in_blocks(function, columns, width)
        return result.reshape(*result.shape[:-1], *leaf.shape[1:])

    return jax.tree.map(apply, stacked)


def _in_blocks(function: Callable[[Array], Array], columns: Array, width: int) -> Array:
    """`function` of `width` columns at a time; there are at least that many."""
    K, D = columns.shape
    shape = jax.eval_shape(function, jax.ShapeDtypeStruct((K, width), columns.dtype))

    def block(b, result):
        first = jnp.minimum(b * width, D - width)
        part = function(lax.dynamic_slice_in_dim(columns, first, width, 1))
        return lax.dynamic_update_slice_in_dim(result, part, first, part.ndim - 1)

    blocks = -(-D // width)  # rounded up
    return lax.fori_loop(0, blocks, block, jnp.zeros((*shape.shape[:-1], D), shape.dtype))


def over_blocks(
    step: Callable[[Array, Array, Array, Tree], Tree],
    state: Tree,
    stacked: Tree,
    width: int,
    dtype: Any,
) -> Tree:
    """`state ← step(b, block [K, width], new [width], state)` over all columns of a stack.

    `new` marks the columns that no earlier block held: the last block of a leaf ends with the leaf,
    and so starts with columns of the block before it. A leaf with a single block is filled up with
    zeros. Leaves narrower than a block are one leaf (`wide_leaves`). There is one loop over the
    blocks of all leaves, so that `step` is compiled once.
    """
    leaves = wide_leaves(stacked, width)
    starts = block_starts(leaves, width)

    def cut(leaf, start):
        D = leaf.shape[1]

        def block(b):
            first_new = (b - start) * width
            first = jnp.clip(first_new, 0, max(D - width, 0))
            column = first + jnp.arange(width)
            part = lax.dynamic_slice_in_dim(leaf, first, min(width, D), 1).astype(dtype)
            padded = jnp.pad(part, ((0, 0), (0, max(width - D, 0))))  # [K, width]
            new = (column >= first_new) & (column < D)
            return padded, new

        return block

    blocks = starts[-1]
    cuts = [cut(leaf, start) for leaf, start in zip(leaves, starts, strict=False)]

    def body(b, state):
        leaf = jnp.sum(b >= jnp.array(starts[:-1])) - 1
        block, new = lax.switch(leaf, cuts, b)
        return step(b, block, new, state)

    if not cuts:
        return state
    if blocks == 1:
        block, new = cuts[0](0)
        return step(jnp.asarray(0), block, new, state)
    return lax.fori_loop(0, blocks, body, state)


def wide_leaves(stacked: Tree, width: int) -> list[Array]:
    """The leaves of a stack as `[K, D]`, without empty ones.

    Those narrower than a block are concatenated into one leaf, the first.
    """
    leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(stacked) if leaf.size]
    narrow = [leaf for leaf in leaves if leaf.shape[1] < width]
    if len(narrow) < 2:
        return leaves
    dtype = jnp.result_type(*narrow)
    together = jnp.concatenate([leaf.astype(dtype) for leaf in narrow], axis=1)
    return [together, *(leaf for leaf in leaves if leaf.shape[1] >= width)]


def block_starts(leaves: Sequence[Array], width: int) -> list[int]:
    """The number of the first block of every leaf `[K, D]`, and the number of all blocks."""
    blocks = [-(-leaf.shape[1] // width) for leaf in leaves]  # rounded up
    return list(itertools.accumulate(blocks, initial=0))


def block_width(stacked: Tree) -> int:
    """Columns of a block, whatever the number of rows is.

    A stack of up to twice `BLOCK` columns is one block, rounded up to a multiple of 512.
    """
    columns = sum(leaf.size // leaf.shape[0] for leaf in jax.tree.leaves(stacked) if leaf.size)
    if columns > 2 * BLOCK:
        return BLOCK
    steps = -(-columns // 512)  # rounded up
    return max(512, steps * 512)


def squared_distances(stacked: Tree, present: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """`‖row_i − row_j‖₂²` of all pairs; +∞ where a row is absent, else finite.

    They come from the products of centred rows, `‖y_i‖² + ‖y_j‖² − 2 y_i·y_j`, where no pair loses
    its digits in them. With an outlier, or where rows hardly differ, they come from differences of
    rows, which takes several times as long. Overflow and NaN become the largest float, so that
    present rows stay nearer than absent ones. Absent rows change no bit.
    """
    dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(stacked))
    products = gram(stacked, present)
    squares = jnp.diagonal(products)
    sums = squares[:, None] + squares[None, :]
    total = sums - 2 * products
    pair = present[:, None] & present[None, :] & ~jnp.eye(present.shape[0], dtype=bool)
    reliable = jnp.all(jnp.where(pair, (total > 1e-2 * sums) & jnp.isfinite(sums), True))
    total = lax.cond(
        reliable,
        lambda: jnp.where(pair, total, 0),
        lambda: _squared_differences(stacked, present),
    )
    total = jnp.where(jnp.isfinite(total), total, jnp.finfo(dtype).max)
    return jnp.where(present[:, None] & present[None, :], total, jnp.inf)


def gram(stacked: Tree, present: Bool[Array, " K"], centred: bool = True) -> Float[Array, "K K"]:
    """Products of all pairs of rows, centred on the mean of the present ones; 0 for absent rows.

    The present rows come first, and every product is one of tiles whose shape depends on the number
    of present rows alone, whatever K is (5. in `exact`). Tiles below the diagonal are not computed.

    Args:
      present: those that count.
      centred: False for the products of the rows as they are.
    """
    K = present.shape[0]
    order = jnp.argsort(~present, stable=True)

    def of_first(rows: int, side: int) -> Float[Array, "K K"]:
        products = _products(stacked, present, order[:rows], side, centred)
        return jnp.pad(products, (0, K - rows))

    if K <= FEW:
        ordered = of_first(K, SMALL_SIDE)
    else:
        ordered = lax.cond(
            jnp.sum(present) <= FEW,
            lambda: of_first(FEW, SMALL_SIDE),
            lambda: of_first(K, LARGE_SIDE),
        )
    rank = jnp.argsort(order)
    return ordered[rank][:, rank]


def _products(
    stacked: Tree, present: Bool[Array, " K"], chosen: Int[Array, " J"], side: int, centred: bool
) -> Float[Array, "J J"]:
    """Products of all pairs of chosen rows, in tiles of `side` rows; the arguments of `gram`."""
    J = len(chosen)
    dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(stacked))
    tiles = -(-J // side)  # rounded up
    pairs = [(i, j) for i in range(tiles) for j in range(i, tiles)]
    m = jnp.maximum(jnp.sum(present), 1).astype(dtype)
    front = present[chosen]  # True as often as there are present rows, then False

    def add(b, block, new, total):
        del b
        centre = jnp.zeros(block.shape[1], dtype)
        if centred:
            centre = fold(centre, block, present.astype(dtype)) / m
        y = jnp.where(front[:, None] & new[None, :], block[chosen] - centre, 0)
        y = jnp.pad(y, ((0, tiles * side - J), (0, 0))).reshape(tiles, side, -1)
        times = lambda a, b: jnp.matmul(a, b.T, precision=lax.Precision.HIGHEST)
        return [t + times(y[i], y[j]) for t, (i, j) in zip(total, pairs, strict=True)]

    zeros = [jnp.zeros((side, side), dtype) for _ in pairs]
    products = over_blocks(add, zeros, stacked, block_width(stacked), dtype)

    # The tiles on and above the diagonal, and their transposes, as one matrix.
    tile = dict(zip(pairs, products, strict=True))
    tile |= {(j, i): product.T for (i, j), product in tile.items() if i < j}
    return jnp.block([[tile[i, j] for j in range(tiles)] for i in range(tiles)])[:J, :J]


def _squared_differences(stacked: Tree, present: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """Squared distances, summed over blocks of columns whose width does not depend on K."""
    K = present.shape[0]
    dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(stacked))

    def add(b, block, new, total):
        del b
        block = jnp.where(new[None, :], block, 0)
        return total + jnp.sum(jnp.square(block[:, None, :] - block[None, :, :]), -1)

    return over_blocks(add, jnp.zeros((K, K), dtype), stacked, 512, dtype)
