"""Count sketches: tables that can be summed in place of the messages."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Lt
from jaxtyping import Array, Float, Int

from fedsim.codecs.sizes import VALUE_BITS
from fedsim.compose import codec
from fedsim.tree import Tree
from fedsim.types import AggregateStage, Codec, Context, Result

# Up to so many rows, a sorting network finds their median: 50 times as fast as a sort of 5 rows.
NETWORK = 16


class Hashes(NamedTuple):
    """Where each coordinate goes in every row of a table, and with which sign `[rows, d]`."""

    column: Int[Array, "rows d"]
    sign: Float[Array, "rows d"] | Int[Array, "rows d"]


@codec
def count_sketch(
    rows: Annotated[int, Ge(1)] = 5,
    columns: Annotated[int, Ge(1)] = 1000,
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0,
    k: Annotated[int, Ge(1)] | None = None,
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0,
    masked: bool = False,
) -> Codec:
    """Sends a table of randomly signed sums of coordinates; the server decodes the sum of tables.

    Row r of the table: T[r, h_r(j)] += s_r(j) x_j, with hashes h_r and signs s_r that clients and
    server share; decoded: x̂_j = median_r s_r(j) T[r, h_r(j)]. E x̂_j is x_j for one row; |x̂_j −
    x_j| is below 3 ‖x‖ / √columns but with a probability that falls exponentially in the number of
    rows. Linear: the sketch of a sum is the sum of the sketches. h_r shifts each run of `columns`
    coordinates cyclically by a random number, so that two coordinates meet with probability 1 /
    columns at most, and those of one run never.

    With `k` the server has a memory, S_u = S_e = 0 at first, and S is what the rule made of a
    round's tables (FetchSGD): S_u ← ρ S_u + S;  S_e ← S_e + S_u;  Δ = top-k(decoded S_e);  S_e ←
    S_e − S(Δ);  Δ goes on to the optimisers. It diverges where k is not well below `columns` (in
    half of it S(Δ) brings in more than it takes out); `masked` sets all sums in which Δ has a part
    to 0, in S_e and in S_u, as the authors' program does, which is stable, and slower for small k.

    Bits: 32 · rows · columns.
    Cost: O(rows · d) per client.
    Needs: a rule that is a sum, and nothing between it and the wire.

    Args:
      rows: independent tables of a message.
      columns: sums in each of them; from d on a message arrives as it was.
      seed: of hashes and signs, which are the same in all rounds.
      k: coordinates of the aggregate in a round; left out: all of them, and nothing is remembered.
      momentum: ρ, with `k`.
      masked: as above, with `k`.

    References:
      Charikar, Chen, Farach-Colton 2002, Finding Frequent Items in Data Streams; Rothchild et al.
      2020, FetchSGD, arXiv:2007.07682, Algorithm 1 (with its learning rate at the clients).
    """
    if k is None and (momentum or masked):
        raise ValueError("momentum and masked are of a server with k; give k, or leave them out")

    def encode(x, memory, key):
        del key
        shift, sign = draws(len(x))
        return sketch_of_runs(x, shift, sign, columns), VALUE_BITS * rows * columns, memory

    def decode(table, d):
        return estimate(table, hashes(d))

    def draws(d: int) -> tuple[Array, Array]:
        key = jax.random.key(seed)
        shift = jax.random.randint(jax.random.fold_in(key, 0), (rows, -(-d // columns)), 0, columns)
        words = jax.random.bits(jax.random.fold_in(key, 1), (rows, -(-d // 32)), jnp.uint32)
        bits = (words[:, :, None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
        return shift, 1 - 2 * bits.reshape(rows, -1)[:, :d].astype(jnp.int8)

    def hashes(d: int) -> Hashes:
        shift, sign = draws(d)
        j = jnp.arange(d)
        return Hashes((j % columns + shift[:, j // columns]) % columns, sign)

    def init(params, present):
        table = jnp.zeros((rows, columns), jnp.result_type(*jax.tree.leaves(params)))
        return Sketches(table, table)

    def apply(table: Tree, memory: Sketches, context: Context) -> Result:
        d = sum(leaf.size for leaf in jax.tree.leaves(context.shared["params"]))
        update, memory = fetch(table, memory, hashes(d), min(k or d, d), momentum, masked)
        return update, memory, {}

    return Codec(
        encode, decode, linear=True, server=None if k is None else AggregateStage(apply, init)
    )


def sketch(x: Float[Array, " d"], hashes: Hashes, columns: int) -> Float[Array, "rows columns"]:
    """The table of a vector."""
    row = lambda column, sign: jnp.zeros(columns, x.dtype).at[column].add(sign.astype(x.dtype) * x)
    return jax.vmap(row)(hashes.column, hashes.sign)


def sketch_of_runs(
    x: Float[Array, " d"], shift: Int[Array, "rows runs"], sign: Int[Array, "rows d"], columns: int
) -> Float[Array, "rows columns"]:
    """`sketch`, bit for bit, where each run of `columns` coordinates is shifted as a whole.

    The runs are added in the order of memory.
    """
    runs = shift.shape[1]
    padding = runs * columns - len(x)

    def row(drawn):
        shift, sign = drawn
        signed = jnp.pad(sign.astype(x.dtype) * x, (0, padding)).reshape(runs, columns)

        def add(run, table):
            values = jax.lax.dynamic_index_in_dim(signed, run, keepdims=False)
            twice = jnp.concatenate([values, values])
            return table + jax.lax.dynamic_slice(twice, (columns - shift[run],), (columns,))

        return jax.lax.fori_loop(0, runs, add, jnp.zeros(columns, x.dtype))

    return jax.lax.map(row, (shift, sign))


def estimate(table: Float[Array, "rows columns"], hashes: Hashes) -> Float[Array, " d"]:
    """Estimate a vector from its table by the median over rows, or the mean of the middle two."""
    values = jnp.take_along_axis(table, hashes.column, axis=1) * hashes.sign.astype(table.dtype)
    if len(values) > NETWORK:
        return jnp.median(values, axis=0)
    rows = list(values)
    for turn in range(len(rows)):  # odd-even transposition sort
        for low in range(turn % 2, len(rows) - 1, 2):
            rows[low : low + 2] = (
                jnp.minimum(*rows[low : low + 2]),
                jnp.maximum(*rows[low : low + 2]),
            )
    return 0.5 * rows[(len(rows) - 1) // 2] + 0.5 * rows[len(rows) // 2]


class Sketches(NamedTuple):
    """What the server keeps, with `k`."""

    momentum: Float[Array, "rows columns"]
    error: Float[Array, "rows columns"]


def fetch(
    table: Float[Array, "rows columns"],
    memory: Sketches,
    hashes: Hashes,
    k: int,
    momentum: float,
    masked: bool,
) -> tuple[Float[Array, " d"], Sketches]:
    """A round of FetchSGD's server: the table of the cohort -> (its update, memory)."""
    velocity = momentum * memory.momentum + table
    error = memory.error + velocity
    values = estimate(error, hashes)
    places = jax.lax.top_k(jnp.abs(values), k)[1]
    largest = Hashes(hashes.column[:, places], hashes.sign[:, places])
    update = jnp.zeros_like(values).at[places].set(values[places])
    taken = sketch(values[places], largest, table.shape[1])
    if masked:
        return update, Sketches(*(jnp.where(taken == 0, sums, 0) for sums in (velocity, error)))
    return update, Sketches(velocity, error - taken)
