"""Angles between the rows of a stack, and the clusters that they make."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.tree import Tree


def cosines(stacked: Tree, present: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """Cosines of the angles between all pairs of present rows, 1 − ‖u_i − u_j‖²/2 of unit rows; 0 for a row of zeros."""
    lengths = tree.norms(stacked, tree.zero_row(stacked))
    usable = present & (lengths > 0) & jnp.isfinite(lengths)
    inverse = 1 / jnp.where(usable, lengths, 1)
    units = jax.tree.map(
        lambda x: jnp.where(tree.along(usable, x), x * tree.along(inverse, x).astype(x.dtype), 0),
        stacked,
    )
    square = tree.squared_distances(units, usable)
    return jnp.where(usable[:, None] & usable[None, :], 1 - 0.5 * square, 0)


def single_linkage(
    distance: Float[Array, "K K"], present: Bool[Array, " K"]
) -> Float[Array, "K K"]:
    """The distance at which two rows come into the same cluster when the nearest clusters are joined one after another.

    That is the least, over all paths between them, of the longest step; +∞ beside an absent row.
    """
    pair = present[:, None] & present[None, :]
    direct = jnp.where(
        pair, jnp.where(jnp.eye(len(present), dtype=bool), -jnp.inf, distance), jnp.inf
    )
    through = lambda k, joined: jnp.minimum(
        joined, jnp.maximum(joined[:, k][:, None], joined[k][None, :])
    )
    return lax.fori_loop(0, len(present), through, direct)
