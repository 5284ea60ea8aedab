"""Columns of a stack in ascending order, by sorting networks whose numbers stay in the registers.

Few rows are sorted by an unrolled network: one operation reads every number once, and writes the
function of the ranks that is asked for. For many rows that would take too long to compile: there
compare-exchange layers move every number between cache and registers, up to three layers at once on
groups of eight rows, in tiles so narrow that loops are unrolled, several of them at once.
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

NETWORK = 128  # rows of the longest network in one operation: compiling takes two seconds
FEW = 64  # rows for which compiling the network takes no longer than the layers
LONG = 1 << 18  # columns of a leaf for which compiling a longer network is worth the time
TILES = 16  # of a block that is sorted by one operation, which divides them among the threads


class Ranks(NamedTuple):
    """Values of some columns in ascending order, as integers in the order of their floats.

    The rows are a list with one entry per rank, or a single array.
    """

    rows: list[Int[Array, "1 ..."]] | Int[Array, "P T C"]
    dtype: Any

    def at(self, rank: Int[Array, ""], below: int | None = None) -> Float[Array, "..."]:
        """The values of a rank, which must be less than `below`."""
        if not isinstance(self.rows, list):
            return _floats(self.rows[rank], self.dtype)
        value = self.rows[0]
        chosen = jnp.arange(len(self.rows)) == rank
        for r, row in enumerate(self.rows[1:below], 1):
            value = jnp.where(chosen[r], row, value)
        return _floats(value, self.dtype)

    def sum(self, first: int, count: Int[Array, ""]) -> Float[Array, "..."]:
        """The sum of `count` ranks from `first` on, in order: 3. in `fedsim.tree.exact`."""
        total = jnp.zeros(self.rows[0].shape, self.dtype)
        if not isinstance(self.rows, list):
            add = lambda r, total: total + _floats(self.rows[r], self.dtype)
            return lax.fori_loop(first, first + count, add, total)
        inside = jnp.arange(len(self.rows)) < first + count
        for r, row in enumerate(self.rows[first:], first):
            total = jnp.where(inside[r], total + _floats(row, self.dtype), total)
        return total


Reduce = Callable[[Ranks], Float[Array, "..."]]
"""A function of the ranks of some columns, which treats each column by itself."""


def by_sorted_columns(function: Reduce, stacked: Tree, present: Bool[Array, " K"]) -> Tree:
    """Apply a function of ranks to all columns of a stack -> one tree.

    There are at least K ranks: absent rows and NaN come behind all others as +∞. The leaves of a
    dtype share one loop over blocks of columns, so that the network is compiled once. Memory: the
    stack, the result twice, and one block.
    """
    leaves, structure = jax.tree.flatten(stacked)
    result = [jnp.zeros(leaf.shape[1:], leaf.dtype) for leaf in leaves]
    dtypes = {leaf.dtype: None for leaf in leaves if leaf.size}
    for dtype in dtypes:
        indices = [i for i, leaf in enumerate(leaves) if leaf.dtype == dtype and leaf.size]
        rows = _reduce([leaves[i] for i in indices], function, present)
        for i, row in zip(indices, rows, strict=True):
            result[i] = row.reshape(leaves[i].shape[1:])
    return jax.tree.unflatten(structure, result)


def _reduce(leaves: list[Array], function: Reduce, present: Bool[Array, " K"]) -> list[Array]:
    """Reduce leaves of the same dtype, none of them empty, to one row per leaf."""
    K = present.shape[0]
    dtype = leaves[0].dtype
    leaves = [leaf.reshape(K, -1) for leaf in leaves]
    columns = [leaf.shape[1] for leaf in leaves]

    longest = NETWORK if max(columns) >= LONG else FEW
    if platform() == "cpu" and K <= longest:
        W, reduce = _by_network(K, sum(columns), dtype, function)
    else:
        W, reduce = _by_layers(K, sum(columns), dtype, function)
    wide = tree.wide_leaves(leaves, W)
    starts = tree.block_starts(wide, W)

    def block(b, values, new, out):
        del new
        return lax.dynamic_update_slice(out, reduce(values, present), (b, 0))

    def all_blocks(out):
        return tree.over_blocks(block, out, wide, W, dtype)

    out = jnp.zeros((starts[-1], W), dtype)
    out = all_blocks(out) if starts[-1] > 1 else _by_itself(all_blocks, out, present)

    # The last block of a leaf overlaps the one before, unless it is the only one.
    rows = []
    for leaf, first, end in zip(wide, starts[:-1], starts[1:], strict=True):
        rest = leaf.shape[1] - (end - 1 - first) * W  # columns that are new in the last block
        is_only = end - first == 1
        last = out[end - 1, :rest] if is_only else out[end - 1, W - rest :]
        rows.append(jnp.concatenate([out[first : end - 1].reshape(-1), last]))
    return _separated(rows, columns, W)


def _by_itself(compute: Callable[[Array], Array], out: Array, present: Bool[Array, " K"]) -> Array:
    """Compute in a loop of a single step, so that XLA does not fuse what follows with it.

    It would sort once more for every row that reads the result: barriers are gone when it fuses on
    a CPU. It does not see that the number of steps, which depends on `present`, is 1.
    """
    steps = jnp.maximum(1, jnp.minimum(jnp.sum(present), 1))
    return lax.fori_loop(0, steps, lambda _, out: compute(out), out)


def _separated(rows: list[Array], columns: list[int], width: int) -> list[Array]:
    """Undo `wide_leaves`: separate the row of the narrow leaves, which have these columns."""
    narrow = [D for D in columns if D < width]
    if len(narrow) < 2:
        return rows
    ends = list(itertools.accumulate(narrow))[:-1]
    narrow_rows = iter(jnp.split(rows[0], ends))
    wide_rows = iter(rows[1:])
    return [next(narrow_rows if D < width else wide_rows) for D in columns]


def _by_network(K: int, D: int, dtype: Any, function: Reduce):
    """Sort blocks by an unrolled network, in one operation.

    Rows keep their axis of length 1: without it, every rank would be another view, which XLA
    computes by itself.

    Args:
      D: columns of all leaves.

    Returns:
      The columns of a block; `(values, present) -> [1, columns]`.
    """
    # Blocks of 2¹⁸ numbers, as measured, in tiles of a multiple of 16 columns.
    needed = -(-D // (16 * TILES))
    C = 16 * max(1, min(2**14 // (16 * K), needed))

    def reduce(values, present):
        x = lax.optimization_barrier(_filled(values, present, K)).reshape(K, TILES, C)
        row = function(Ranks(_network([x[k : k + 1] for k in range(K)]), dtype))
        return lax.optimization_barrier(row).reshape(1, -1)

    return TILES * C, reduce


def _by_layers(K: int, D: int, dtype: Any, function: Reduce):
    """Sort blocks layer by layer; arguments and result are those of `_by_network`."""
    P = 1 << (K - 1).bit_length()

    # Blocks of 2¹⁸ numbers in tiles of 128 bytes a row, as measured: loops over so few columns are
    # unrolled, and threads share the tiles. An accelerator wants few, large operations.
    if platform() == "cpu":
        C = 128 // dtype.itemsize
        tiles = max(2, min(2**18 // (P * C), -(-D // C)))
    else:
        C = min(2**26 // K, D)
        tiles = 1

    def reduce(values, present):
        x = _filled(values, present, P).reshape(P, tiles, C)
        ordered = _sort(lax.optimization_barrier(jnp.swapaxes(x, 0, 1)))
        row = function(Ranks(jnp.swapaxes(ordered, 0, 1), dtype))
        return row.reshape(1, -1)

    return tiles * C, reduce


def _filled(values: Float[Array, "K C"], present: Bool[Array, " K"], P: int) -> Int[Array, "P C"]:
    """Values as integers, filled up to P ranks: absent rows and NaN are +∞, behind all others."""
    x = jnp.where(present[:, None] & ~jnp.isnan(values), values, jnp.inf)
    return _integers(jnp.pad(x, ((0, P - len(present)), (0, 0)), constant_values=jnp.inf))


def _network(rows: list[Array]) -> list[Array]:
    """Sort any number of rows by Batcher's odd-even merge sort.

    It is the network of the next power of two, without the comparisons beyond the last row.
    """
    rows = list(rows)
    run = 1
    while run < len(rows):
        gap = run
        while gap:
            for low in range(gap % run, len(rows) - gap):
                high = low + gap
                in_lower_half = (low - gap % run) % (2 * gap) < gap
                in_same_run = low // (2 * run) == high // (2 * run)
                if in_lower_half and in_same_run:
                    a, b = rows[low], rows[high]
                    rows[low] = lax.min(a, b)  # faster to trace than jnp.minimum
                    rows[high] = lax.max(a, b)
            gap //= 2
        run *= 2
    return rows


def ascending(columns: Float[Array, "K C"]) -> Float[Array, "P C"]:
    """Columns in ascending order, filled up with +∞ to P ≥ K ranks, a power of two; NaN is +∞."""
    K = columns.shape[0]
    P = 1 << (K - 1).bit_length()
    integers = _filled(columns, jnp.ones(K, bool), P)
    return _floats(_sort(integers[None])[0], columns.dtype)


def middle(ordered: Float[Array, "P ..."], m: Int[Array, ""]) -> Float[Array, "..."]:
    """The median of the first m values of every column, which are in ascending order."""
    return 0.5 * ordered[jnp.maximum(m - 1, 0) // 2] + 0.5 * ordered[jnp.maximum(m, 0) // 2]


def _integers(values: Float[Array, "..."]) -> Int[Array, "..."]:
    """Read the bits of floats as integers in the order of the floats.

    They are compared by one instruction, and −0 < 0 whatever the network.
    """
    bits = lax.bitcast_convert_type(values, jnp.dtype(f"int{8 * values.dtype.itemsize}"))
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


def _floats(integers: Int[Array, "..."], dtype) -> Float[Array, "..."]:
    """The inverse of `_integers`."""
    bits = jnp.where(integers < 0, integers ^ jnp.iinfo(integers.dtype).max, integers)
    return lax.bitcast_convert_type(bits, dtype)


def _sort(x: Int[Array, "T P C"]) -> Int[Array, "T P C"]:
    """Bitonic sort along axis 1, whose length is a power of two.

    Two sorted runs are merged, the second one reversed.
    """
    P = x.shape[1]
    run = min(P, 8)
    x = _regroup(x, run, 1, _sort_lists)
    while run < P:
        layers = run.bit_length()
        for number in _layers_per_operation(layers):
            layers -= number
            is_first = 2 ** (number + layers) == 2 * run
            x = _regroup(x, 2**number, 2**layers, _merge_lists, flip=is_first)
        run *= 2
    return x


def _layers_per_operation(layers: int) -> list[int]:
    """Divide the layers of a merge among operations, at most three each, as evenly as possible."""
    operations = -(-layers // 3)
    return [layers // operations + (i < layers % operations) for i in range(operations)]


def _regroup(
    x: Int[Array, "T P C"],
    size: int,
    gap: int,
    work: Callable[[list[Array]], list[Array]],
    flip: bool = False,
) -> Int[Array, "T P C"]:
    """Apply `work` to lists of `size` rows at a distance of `gap`, in each run of size·gap rows.

    Args:
      size: rows of a list.
      gap: the distance of the rows of a list.
      work: a list of rows -> a list of as many.
      flip: whether to reverse the second half of each run first.
    """
    groups = x.reshape(-1, size, gap, x.shape[2])
    rows = [groups[:, i] for i in range(size)]
    if flip:
        rows[size // 2 :] = [row[:, ::-1] for row in reversed(rows[size // 2 :])]

    # The barrier keeps operations apart: fused, they would compute everything many times.
    return lax.optimization_barrier(jnp.stack(work(rows), 1).reshape(x.shape))


def _merge_lists(rows: list) -> list:
    """Sort rows that first ascend and then descend."""
    half = len(rows) // 2
    if not half:
        return rows
    pairs = list(zip(rows[:half], rows[half:], strict=True))
    low = _merge_lists([jnp.minimum(a, b) for a, b in pairs])
    high = _merge_lists([jnp.maximum(a, b) for a, b in pairs])
    return low + high


def _sort_lists(rows: list) -> list:
    """Sort rows in any order."""
    half = len(rows) // 2
    if not half:
        return rows
    ascending_half = _sort_lists(rows[:half])
    descending_half = _sort_lists(rows[half:])[::-1]
    return _merge_lists(ascending_half + descending_half)
