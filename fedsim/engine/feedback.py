"""What a cohort asks about the clients of a block: a few numbers for each client.

They are computed on the device, and only where a cohort asks for them. The programs are separate
from the training and change no bit of it. They work on one row at a time, so that the bits of a row
do not depend on its block.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.engine.records import DispatchedRound
from fedsim.fleet import Cohort
from fedsim.fleet.selection import SKETCH_SIZE
from fedsim.tree import Tree

GOLDEN_RATIO = 0x9E3779B9  # 2³² / φ: spreads consecutive numbers


def sketch(update: Tree) -> Float[Array, " SKETCH_SIZE"]:
    """Return a row of a count sketch: sums of coordinates with random signs; E[s(x)·s(y)] = x·y.

    The update is cut into segments of SKETCH_SIZE coordinates. A hash of a coordinate's position
    gives its sign, and a hash of the segment's number rotates the segment. The hash is the same for
    all clients, rounds and methods.
    """
    leaves = []
    for leaf in jax.tree.leaves(update):
        wide = jnp.promote_types(leaf.dtype, jnp.float32)
        leaves.append(leaf.astype(wide).ravel())
    flat = jnp.concatenate(leaves)

    # [D] -> [segments, SKETCH_SIZE], the last one filled up with zeros
    segments = jnp.pad(flat, (0, -len(flat) % SKETCH_SIZE)).reshape(-1, SKETCH_SIZE)
    position = jnp.arange(segments.size, dtype=jnp.uint32).reshape(segments.shape)
    segment = position[:, :1] // SKETCH_SIZE

    rotation = _hash(segment ^ jnp.uint32(GOLDEN_RATIO))
    source = (position + rotation) % SKETCH_SIZE
    signs = 1 - 2 * (_hash(position) >> 31).astype(segments.dtype)
    rotated = jnp.take_along_axis(segments * signs, source.astype(jnp.int32), 1)
    return jnp.sum(rotated, 0)


def _hash(x: Array) -> Array:
    """Murmur3's last step: every bit of the result depends on all bits."""
    x = (x ^ x >> 16) * jnp.uint32(0x85EBCA6B)
    x = (x ^ x >> 13) * jnp.uint32(0xC2B2AE35)
    return x ^ x >> 16


FEEDBACK: dict[str, Callable[[Tree], Array]] = {"norm": tree.norm, "sketch": sketch}


@functools.partial(jax.jit, static_argnames="names")
def update_feedback(delta: Tree, names: tuple[str, ...]) -> dict[str, Array]:
    """Return what a cohort asks about the rows of a block, `[block, ...]` each.

    Args:
      delta: the updates as the training left them, before wire and attacks `[block, ...]`.
    """
    rows = jax.tree.leaves(delta)[0].shape[0]

    # The compiler unrolls a loop over a single row, which changes its bits: measure it twice.
    if rows == 1:
        delta = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), delta)

    feedback = lax.map(lambda row: {name: FEEDBACK[name](row) for name in names}, delta)
    return jax.tree.map(lambda leaf: leaf[:rows], feedback)


def feedback_of(dispatched: DispatchedRound, cohort: Cohort) -> dict[str, np.ndarray]:
    """Return what the clients of a round that is over tell later cohorts, by name `[K, ...]`."""

    def of_round(blocks: list[Array]) -> np.ndarray:  # [block, ...] each -> [K, ...]
        rows = np.concatenate([np.asarray(block) for block in blocks])
        return rows[: len(dispatched.cohort.ids)]

    feedback = {}
    for name in cohort.feedback:
        if name in FEEDBACK:
            feedback[name] = of_round([block[name] for block in dispatched.feedback])
    if "loss" in cohort.needs:
        loss = of_round([block.loss for block in dispatched.stats])
        seen = of_round([block.seen for block in dispatched.stats])
        with np.errstate(invalid="ignore", divide="ignore"):
            feedback["loss"] = loss.astype(np.float64) / seen
    return feedback
