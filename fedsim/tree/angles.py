"""Lengths of the rows of a stack, and angles between them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fedsim.tree.arithmetic import Tree, along, finite_rows, zero_row
from fedsim.tree.columns import gram, squared_distances
from fedsim.tree.exact import SQUARES, norms


class Angles(NamedTuple):
    """Rows and the angles between them.

    Attributes:
      usable: the present rows that are finite.
      lengths: of the usable rows.
      cosines: of the angles between usable rows; 0 for a row of zeros.
    """

    usable: Bool[Array, " K"]
    lengths: Float[Array, " K"]
    cosines: Float[Array, "K K"]


def angles(stacked: Tree, present: Bool[Array, " K"]) -> Angles:
    """Return lengths and cosines from the products of all pairs of rows.

    They come from `norms` and `cosines`, which take twice as long, where a square is out of range,
    and where a cosine is so near to 1 that the difference would lose its digits.
    """
    products = gram(stacked, present, centred=False)
    squares = jnp.diagonal(products)
    lengths = jnp.sqrt(squares)
    of_products = products * (1 / lengths)[:, None] * (1 / lengths)[None, :]
    pair = present[:, None] & present[None, :]
    others = pair & ~jnp.eye(len(present), dtype=bool)
    in_range = (squares > SQUARES[0]) & (squares < SQUARES[1])
    reliable = jnp.all(in_range | ~present) & jnp.all((of_products < 0.99) | ~others)

    def of_rows() -> Angles:
        usable = present & finite_rows(stacked, len(present))
        return Angles(usable, norms(stacked, zero_row(stacked)), cosines(stacked, usable))

    return lax.cond(
        reliable, lambda: Angles(present, lengths, jnp.where(pair, of_products, 0)), of_rows
    )


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
