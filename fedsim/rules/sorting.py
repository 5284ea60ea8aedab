"""Columns of a stack in ascending order, by a sorting network in tiles that stay in the registers.

One compare-exchange layer after another moves every number between cache and registers for each of them. Here up to three
layers are one operation on groups of eight rows, and a tile is so narrow that its loops are unrolled.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.tree import Tree


def by_sorted_columns(
    function: Callable[[Float[Array, "P C"]], Float[Array, " C"]], stacked: Tree, present: Bool[Array, " K"]
) -> Tree:
    """`function` of tiles whose columns are in ascending order, over all columns of a stack -> one tree.

    Axis 0 of a tile are the P ≥ K ranks: absent rows, NaN, and what fills P up to a power of two stand behind all others
    as +∞; `function` must treat each column on its own. The leaves of a dtype share one loop over blocks of tiles, so that
    the network is compiled once. Memory: the stack, the result twice, and one block.
    """
    leaves, structure = jax.tree.flatten(stacked)
    result = [jnp.zeros(leaf.shape[1:], leaf.dtype) for leaf in leaves]
    for dtype in {leaf.dtype: None for leaf in leaves if leaf.size}:
        chosen = [i for i, leaf in enumerate(leaves) if leaf.dtype == dtype and leaf.size]
        for i, row in zip(chosen, _reduce([leaves[i] for i in chosen], function, present), strict=True):
            result[i] = row.reshape(leaves[i].shape[1:])
    return jax.tree.unflatten(structure, result)


def _reduce(leaves: list[Array], function: Callable[[Array], Array], present: Bool[Array, " K"]) -> list[Array]:
    """One row per leaf, of leaves of one dtype that are not empty."""
    K, dtype, cpu = present.shape[0], leaves[0].dtype, jax.default_backend() == "cpu"
    leaves = [leaf.reshape(K, -1) for leaf in leaves]
    columns = [leaf.shape[1] for leaf in leaves]
    P = 1 << (K - 1).bit_length()
    C = max(128, 2**14 // P) // dtype.itemsize  # measured: tiles of 16 KiB, and few rows want longer ones
    W = C * max(1, min((2**16 if cpu else 2**26) // (K * C), -(-max(columns) // C)))
    C = C if cpu else W  # an accelerator wants few, large operations
    starts = tree.block_starts(leaves, W)

    def block(b, values, new, out):
        del new

        def tile(t):
            x = lax.dynamic_slice_in_dim(values, t * C, C, 1)
            x = jnp.where(present[:, None] & ~jnp.isnan(x), x, jnp.inf)
            return _integers(jnp.pad(x, ((0, P - K), (0, 0)), constant_values=jnp.inf))

        def step(t, state):
            x, out = (
                state  # the next tile is cut a step ahead: fused into the network, the cut would keep it from vectors
            )
            row = function(_floats(_sort(x), dtype))
            return tile(t + 1), lax.dynamic_update_slice(out, row[None], (b, t * C))

        return lax.fori_loop(0, W // C, step, (tile(0), out))[1]

    out = tree.over_blocks(block, jnp.zeros((starts[-1], W), dtype), leaves, W, dtype)
    rows = []
    for D, first, end in zip(columns, starts[:-1], starts[1:], strict=True):
        rest = D - (end - 1 - first) * W  # columns that are new in the last block
        last = out[end - 1, :rest] if end - first == 1 else out[end - 1, W - rest :]
        rows.append(jnp.concatenate([out[first : end - 1].reshape(-1), last]))
    return rows


def ascending(columns: Float[Array, "K C"]) -> Float[Array, "P C"]:
    """Columns in ascending order, filled up with +∞ to P ≥ K ranks, a power of two; NaN is +∞."""
    K, P = columns.shape[0], 1 << (columns.shape[0] - 1).bit_length()
    filled = jnp.pad(jnp.where(jnp.isnan(columns), jnp.inf, columns), ((0, P - K), (0, 0)), constant_values=jnp.inf)
    return _floats(_sort(_integers(filled)), columns.dtype)


def middle(ordered: Float[Array, "P ..."], m: Int[Array, ""]) -> Float[Array, "..."]:
    """The median of the first m values of every column, which are in ascending order."""
    return 0.5 * ordered[jnp.maximum(m - 1, 0) // 2] + 0.5 * ordered[jnp.maximum(m, 0) // 2]


def _integers(values: Float[Array, "..."]) -> Int[Array, "..."]:
    """The floats' own bits, in their order: compared by one instruction, and −0 < 0 whatever the network."""
    bits = lax.bitcast_convert_type(values, jnp.dtype(f"int{8 * values.dtype.itemsize}"))
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


def _floats(integers: Int[Array, "..."], dtype) -> Float[Array, "..."]:
    bits = jnp.where(integers < 0, integers ^ jnp.iinfo(integers.dtype).max, integers)
    return lax.bitcast_convert_type(bits, dtype)


def _sort(x: Int[Array, "P C"]) -> Int[Array, "P C"]:
    """Bitonic sort along axis 0, whose length is a power of two: two runs meet, the second one reversed."""
    run = min(x.shape[0], 8)
    x = _regroup(x, run, 1, _sort_lists)
    while run < x.shape[0]:
        layers = run.bit_length()
        for number in _shares(layers):
            layers -= number
            x = _regroup(x, 2**number, 2**layers, _merge_lists, flip=2 ** (number + layers) == 2 * run)
        run *= 2
    return x


def _shares(layers: int) -> list[int]:
    """The layers of a merge, at most three to an operation, as even as they go."""
    operations = -(-layers // 3)
    return [layers // operations + (i < layers % operations) for i in range(operations)]


def _regroup(x, size: int, gap: int, work: Callable[[list[Array]], list[Array]], flip: bool = False):
    """`work` on lists of `size` rows that stand `gap` apart, in each run of size·gap; its second half reversed if `flip`."""
    groups = x.reshape(-1, size, gap, x.shape[1])
    rows = [groups[:, i] for i in range(size)]
    if flip:
        rows[size // 2 :] = [row[:, ::-1] for row in reversed(rows[size // 2 :])]
    # the barrier keeps operations apart: fused, they would compute everything many times
    return lax.optimization_barrier(jnp.stack(work(rows), 1).reshape(x.shape))


def _merge_lists(rows: list) -> list:
    """Ascending order of rows that first ascend and then descend."""
    half = len(rows) // 2
    if not half:
        return rows
    pairs = list(zip(rows[:half], rows[half:], strict=True))
    return _merge_lists([jnp.minimum(a, b) for a, b in pairs]) + _merge_lists([jnp.maximum(a, b) for a, b in pairs])


def _sort_lists(rows: list) -> list:
    half = len(rows) // 2
    return _merge_lists(_sort_lists(rows[:half]) + _sort_lists(rows[half:])[::-1]) if half else rows
