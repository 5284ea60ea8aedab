"""Angles between the rows of a stack."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fedsim.tree.arithmetic import Tree, along, zero_row
from fedsim.tree.columns import squared_distances
from fedsim.tree.exact import norms


def cosines(stacked: Tree, present: Bool[Array, " K"]) -> Float[Array, "K K"]:
    """Return the cosines of the angles between all pairs of present rows; 0 for a row of zeros.

    They are 1 − ‖u_i − u_j‖²/2 for rows u of length 1.
    """
    lengths = norms(stacked, zero_row(stacked))
    usable = present & (lengths > 0) & jnp.isfinite(lengths)
    inverse = 1 / jnp.where(usable, lengths, 1)

    def units(x: Array) -> Array:
        return jnp.where(along(usable, x), x * along(inverse, x).astype(x.dtype), 0)

    square = squared_distances(jax.tree.map(units, stacked), usable)
    return jnp.where(usable[:, None] & usable[None, :], 1 - 0.5 * square, 0)
