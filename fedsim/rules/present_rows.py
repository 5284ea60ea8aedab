"""Decompositions of the rows that are present."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

from fedsim import tree
from fedsim.tree import Tree

FEWEST_ROWS = 8  # of a stack: up to so many clients share one program


def of_present_rows(function: Callable[[Tree], Tree], rows: Tree, present: Bool[Array, " K"]):
    """`function` of the rows that are present, and of zeros up to the next power of two.

    A decomposition has other bits for matrices with more columns of zeros. So the number of clients
    decides how many there are, and not the number of empty slots. Where nobody is present, the
    result is zero.
    """
    sizes = [FEWEST_ROWS]
    while sizes[-1] < len(present):
        sizes.append(2 * sizes[-1])

    first = jnp.argsort(~present, stable=True)
    compacted = tree.select(present[first], tree.take(rows, first), tree.zeros_like(rows))

    def of_first(size: int):
        def resized(leaf):
            leaf = leaf[:size]
            return jnp.pad(leaf, [(0, size - len(leaf)), *[(0, 0)] * (leaf.ndim - 1)])

        return lambda rows: function(jax.tree.map(resized, rows))

    def of_nobody(rows):
        return tree.zeros_like(jax.eval_shape(of_first(sizes[0]), rows))

    # A switch of one branch is compiled in one piece with what stands around it, to other bits. So
    # there are two at least, also where a single size is enough.
    count = jnp.sum(present)
    index = sum((count > size).astype(int) for size in [0, *sizes[:-1]])
    return lax.switch(index, [of_nobody, *map(of_first, sizes)], compacted)
