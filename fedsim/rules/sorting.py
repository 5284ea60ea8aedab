"""Columns of a stack in ascending order, by sorting networks whose numbers stay in the registers.

Few rows are sorted by a network that is written out: one operation reads every number once, and writes what is asked of the
ranks. For many that would take too long to compile: there one compare-exchange layer after another moves every number
between cache and registers, up to three layers at once on groups of eight rows, in tiles so narrow that loops are unrolled.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.machine import platform
from fedsim.tree import Tree

WRITTEN_OUT = 128  # rows of the longest network that is one operation: compiling takes two seconds
FEW, LONG = (
    64,
    1 << 18,
)  # rows for which it takes no longer than in layers; columns of which the time is worth it
TILES = 16  # of a block that is sorted by one operation, which divides them among the threads


class Ranks(NamedTuple):
    """Values of some columns in ascending order, as integers in the order of their floats: rank by rank, or one array."""

    rows: list[Int[Array, "1 ..."]] | Int[Array, "P C"]
    dtype: Any

    def at(self, rank: Int[Array, ""], below: int | None = None) -> Float[Array, "..."]:
        """The values of one rank, which is known to be less than `below`."""
        if not isinstance(self.rows, list):
            return _floats(self.rows[rank], self.dtype)
        value, chosen = self.rows[0], jnp.arange(len(self.rows)) == rank
        for r, row in enumerate(self.rows[1:below], 1):
            value = jnp.where(chosen[r], row, value)
        return _floats(value, self.dtype)

    def sum(self, first: int, count: Int[Array, ""]) -> Float[Array, "..."]:
        """Of `count` ranks from `first` on, one after another: 3. in `fedsim.tree.exact`."""
        total = jnp.zeros(self.rows[0].shape, self.dtype)
        if not isinstance(self.rows, list):
            add = lambda r, total: total + _floats(self.rows[r], self.dtype)
            return lax.fori_loop(first, first + count, add, total)
        inside = jnp.arange(len(self.rows)) < first + count
        for r, row in enumerate(self.rows[first:], first):
            total = jnp.where(inside[r], total + _floats(row, self.dtype), total)
        return total


def by_sorted_columns(
    function: Callable[[Ranks], Float[Array, "..."]], stacked: Tree, present: Bool[Array, " K"]
) -> Tree:
    """`function` of the ranks of some columns, over all columns of a stack -> one tree.

    There are at least K ranks: absent rows and NaN stand behind all others as +∞; `function` must treat each column on its
    own. The leaves of a dtype share one loop over blocks of columns, so that the network is compiled once. Memory: the
    stack, the result twice, and one block.
    """
    leaves, structure = jax.tree.flatten(stacked)
    result = [jnp.zeros(leaf.shape[1:], leaf.dtype) for leaf in leaves]
    for dtype in {leaf.dtype: None for leaf in leaves if leaf.size}:
        chosen = [i for i, leaf in enumerate(leaves) if leaf.dtype == dtype and leaf.size]
        for i, row in zip(
            chosen, _reduce([leaves[i] for i in chosen], function, present), strict=True
        ):
            result[i] = row.reshape(leaves[i].shape[1:])
    return jax.tree.unflatten(structure, result)


def _reduce(
    leaves: list[Array], function: Callable[[Ranks], Array], present: Bool[Array, " K"]
) -> list[Array]:
    """One row per leaf, of leaves of one dtype that are not empty."""
    K, dtype, cpu = present.shape[0], leaves[0].dtype, platform() == "cpu"
    leaves = [leaf.reshape(K, -1) for leaf in leaves]
    columns = [leaf.shape[1] for leaf in leaves]
    written_out = cpu and K <= (WRITTEN_OUT if max(columns) >= LONG else FEW)
    W, reduce = (_written_out if written_out else _in_layers)(K, sum(columns), dtype, function)
    wide = tree.wide_leaves(leaves, W)
    starts = tree.block_starts(wide, W)

    def block(b, values, new, out):
        del new
        return lax.dynamic_update_slice(out, reduce(values, present), (b, 0))

    out = tree.over_blocks(block, jnp.zeros((starts[-1], W), dtype), wide, W, dtype)
    rows = []
    for leaf, first, end in zip(wide, starts[:-1], starts[1:], strict=True):
        rest = leaf.shape[1] - (end - 1 - first) * W  # columns that are new in the last block
        last = out[end - 1, :rest] if end - first == 1 else out[end - 1, W - rest :]
        rows.append(jnp.concatenate([out[first : end - 1].reshape(-1), last]))
    return _apart(rows, columns, W)


def _apart(rows: list[Array], columns: list[int], width: int) -> list[Array]:
    """What `wide_leaves` put together, as the rows of the leaves, which have so many columns."""
    narrow = [D for D in columns if D < width]
    if len(narrow) < 2:
        return rows
    parts, whole = iter(jnp.split(rows[0], list(itertools.accumulate(narrow))[:-1])), iter(rows[1:])
    return [next(parts if D < width else whole) for D in columns]


def _written_out(K: int, most: int, dtype: Any, function: Callable[[Ranks], Array]):
    """(columns of a block, `(values, present) -> [1, columns]`) by a network that is one operation.

    Rows keep their axis of length 1: without it, every rank would be another view, which XLA computes on its own.
    """
    C = 16 * max(
        1, min(2**14 // (16 * K), -(-most // (16 * TILES)))
    )  # measured: blocks of 2¹⁸ numbers

    def reduce(values, present):
        x = lax.optimization_barrier(_filled(values, present, K)).reshape(K, TILES, C)
        row = function(Ranks(_network([x[k : k + 1] for k in range(K)]), dtype))
        return lax.optimization_barrier(row).reshape(1, -1)

    return TILES * C, reduce


def _in_layers(K: int, most: int, dtype: Any, function: Callable[[Ranks], Array]):
    """(columns of a block, `(values, present) -> [1, columns]`) by one layer after another."""
    P, cpu = 1 << (K - 1).bit_length(), platform() == "cpu"
    C = (
        max(128, 2**14 // P) // dtype.itemsize
    )  # measured: tiles of 16 KiB, and few rows want longer ones
    W = C * max(1, min((2**16 if cpu else 2**26) // (K * C), -(-most // C)))
    C = C if cpu else W  # an accelerator wants few, large operations

    def reduce(values, present):
        def tile(t):
            return _filled(lax.dynamic_slice_in_dim(values, t * C, C, 1), present, P)

        def step(t, state):
            x, out = (
                state  # the next tile is cut a step ahead: fused into the network, the cut would keep it from vectors
            )
            row = function(Ranks(_sort(x), dtype))
            return tile(t + 1), lax.dynamic_update_slice(out, row[None], (0, t * C))

        return lax.fori_loop(0, W // C, step, (tile(0), jnp.zeros((1, W), dtype)))[1]

    return W, reduce


def _filled(values: Float[Array, "K C"], present: Bool[Array, " K"], P: int) -> Int[Array, "P C"]:
    """As integers, filled up to P ranks: absent rows and NaN are +∞, behind all others."""
    x = jnp.where(present[:, None] & ~jnp.isnan(values), values, jnp.inf)
    return _integers(jnp.pad(x, ((0, P - len(present)), (0, 0)), constant_values=jnp.inf))


def _network(rows: list[Array]) -> list[Array]:
    """Batcher's odd-even merge sort of any number of rows: that of the next power of two, without what is behind the last."""
    rows, run = list(rows), 1
    while run < len(rows):
        gap = run
        while gap:
            for low in range(gap % run, len(rows) - gap):
                if (low - gap % run) % (2 * gap) < gap and low // (2 * run) == (low + gap) // (
                    2 * run
                ):
                    a, b = rows[low], rows[low + gap]
                    rows[low], rows[low + gap] = (
                        lax.min(a, b),
                        lax.max(a, b),
                    )  # traced faster than jnp's
            gap //= 2
        run *= 2
    return rows


def ascending(columns: Float[Array, "K C"]) -> Float[Array, "P C"]:
    """Columns in ascending order, filled up with +∞ to P ≥ K ranks, a power of two; NaN is +∞."""
    K = columns.shape[0]
    return _floats(
        _sort(_filled(columns, jnp.ones(K, bool), 1 << (K - 1).bit_length())), columns.dtype
    )


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
            x = _regroup(
                x, 2**number, 2**layers, _merge_lists, flip=2 ** (number + layers) == 2 * run
            )
        run *= 2
    return x


def _shares(layers: int) -> list[int]:
    """The layers of a merge, at most three to an operation, as even as they go."""
    operations = -(-layers // 3)
    return [layers // operations + (i < layers % operations) for i in range(operations)]


def _regroup(
    x, size: int, gap: int, work: Callable[[list[Array]], list[Array]], flip: bool = False
):
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
    return _merge_lists([jnp.minimum(a, b) for a, b in pairs]) + _merge_lists(
        [jnp.maximum(a, b) for a, b in pairs]
    )


def _sort_lists(rows: list) -> list:
    half = len(rows) // 2
    return _merge_lists(_sort_lists(rows[:half]) + _sort_lists(rows[half:])[::-1]) if half else rows
