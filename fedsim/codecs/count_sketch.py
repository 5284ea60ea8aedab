"""Count sketches: tables that can be summed in place of the messages."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Float, Int

from fedsim.codecs.sizes import VALUE_BITS
from fedsim.compose import codec
from fedsim.types import Codec


class Hashes(NamedTuple):
    """Where each coordinate goes in every row of a table, and with which sign `[rows, d]`."""

    column: Int[Array, "rows d"]
    sign: Float[Array, "rows d"]


@codec
def count_sketch(
    rows: Annotated[int, Ge(1)] = 5, columns: Annotated[int, Ge(1)] = 1000, seed: Annotated[int, Ge(0)] = 0
) -> Codec:
    """Sends a table of sums of coordinates with random signs; the server sums tables, and decodes their sum once.

    Row r of the table: T[r, h_r(j)] += s_r(j) x_j, with hashes h_r and signs s_r that clients and server share; decoded:
    x̂_j = median_r s_r(j) T[r, h_r(j)]. E x̂_j is x_j for one row; |x̂_j − x_j| is below 3 ‖x‖ / √columns but with a
    probability that falls exponentially in the number of rows. Linear: the sketch of a sum is the sum of the sketches.

    Bits: 32 · rows · columns.    Cost: O(rows · d) per client.    Needs: a rule that is a sum, and nothing between it and
    the wire.

    Args:
      rows: independent tables of a message.
      columns: sums in each of them; more than d serve nobody.
      seed: of hashes and signs, which are the same in all rounds.

    References:
      Charikar, Chen, Farach-Colton 2002, Finding Frequent Items in Data Streams; Rothchild et al. 2020, FetchSGD,
      arXiv:2007.07682 (there with momentum and error feedback at the server, and the largest coordinates alone).
    """

    def encode(x, memory, key):
        del key
        return sketch(x, hashes(len(x)), columns), VALUE_BITS * rows * columns, memory

    def decode(table, d):
        return estimate(table, hashes(d))

    def hashes(d: int) -> Hashes:
        key = jax.random.key(seed)
        column = jax.random.randint(jax.random.fold_in(key, 0), (rows, d), 0, columns)
        sign = jax.random.rademacher(jax.random.fold_in(key, 1), (rows, d), jnp.int8)
        return Hashes(column, sign)

    return Codec(encode, decode, linear=True)


def sketch(x: Float[Array, " d"], hashes: Hashes, columns: int) -> Float[Array, "rows columns"]:
    """The table of a vector."""
    row = lambda column, sign: jnp.zeros(columns, x.dtype).at[column].add(sign.astype(x.dtype) * x)
    return jax.vmap(row)(hashes.column, hashes.sign)


def estimate(table: Float[Array, "rows columns"], hashes: Hashes) -> Float[Array, " d"]:
    """A vector from a table: the median over its rows, of an even number the mean of the two in the middle."""
    values = jnp.take_along_axis(table, hashes.column, axis=1) * hashes.sign.astype(table.dtype)
    return jnp.median(values, axis=0)
