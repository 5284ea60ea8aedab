"""What a cohort asks about the clients of a block: computed on the device where somebody asks, a few numbers a client.

Programs of their own, which change no bit of the training; a row at a time, so that a row's bits do not depend on the block.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.fleet.selection import SKETCH
from fedsim.tree import Tree


def sketch(update: Tree) -> Float[Array, " SKETCH"]:
    """A row of a count sketch: sums of coordinates with random signs; E[s(x)·s(y)] = x·y.

    Run r of SKETCH coordinates gets its signs, and is turned by a number of places, as a hash of r and of the place says; the
    hash is the same for all clients, rounds and methods.
    """
    leaves = [
        leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)).ravel()
        for leaf in jax.tree.leaves(update)
    ]
    flat = jnp.concatenate(leaves)
    runs = jnp.pad(flat, (0, -len(flat) % SKETCH)).reshape(-1, SKETCH)
    number = jnp.arange(runs.size, dtype=jnp.uint32).reshape(runs.shape)
    turned = (number + _hash(number[:, :1] // SKETCH ^ jnp.uint32(0x9E3779B9))) % SKETCH
    signs = 1 - 2 * (_hash(number) >> 31).astype(runs.dtype)
    return jnp.sum(jnp.take_along_axis(runs * signs, turned.astype(jnp.int32), 1), 0)


def _hash(x: Array) -> Array:
    """Murmur3's last step: every bit of the result depends on all bits."""
    x = (x ^ x >> 16) * jnp.uint32(0x85EBCA6B)
    x = (x ^ x >> 13) * jnp.uint32(0xC2B2AE35)
    return x ^ x >> 16


MEASURES: dict[str, Callable[[Tree], Array]] = {"norm": tree.norm, "sketch": sketch}


@functools.partial(jax.jit, static_argnames="asked")
def observed(delta: Tree, asked: tuple[str, ...]) -> dict[str, Array]:
    """What is asked of the rows of a block, as they left their training (before wire and attacks) `[block, ...]`."""
    rows = jax.tree.leaves(delta)[0].shape[0]
    twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), delta) if rows == 1 else delta
    each = lax.map(
        lambda row: {name: MEASURES[name](row) for name in asked}, twice
    )  # a loop over one is written out
    return jax.tree.map(lambda leaf: leaf[:rows], each)
