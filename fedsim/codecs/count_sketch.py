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

# The median of at most this many rows uses a sorting network; for 5 rows it is 50 times as fast as
# a sort.
NETWORK = 16


class Hashes(NamedTuple):
    """The column and the sign of every coordinate in each row of a table `[rows, d]`."""

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
    """Sends a table of sums of coordinates with random signs; the server decodes the sum of tables.

    Row r of the table: T[r, h_r(j)] += s_r(j) x_j, with hashes h_r and signs s_r that clients and
    server share; decoded: x̂_j = median_r s_r(j) T[r, h_r(j)]. For a single row E x̂_j = x_j;
    |x̂_j − x_j| is below 3 ‖x‖ / √columns, except with a probability that falls exponentially in the
    number of rows. Linear: the sketch of a sum is the sum of the sketches. h_r shifts each run of
    `columns` coordinates cyclically by a random number, so that two coordinates collide with
    probability 1 / columns at most, and those of the same run never.

    With `k` the server has a memory, S_u = S_e = 0 at first, and S is the rule's result for a
    round's tables (FetchSGD):
    S_u ← ρ S_u + S;  S_e ← S_e + S_u;  Δ = top-k(decoded S_e);  S_e ← S_e − S(Δ);
    Δ goes to the optimisers. It diverges where k is not well below `columns` (at half of it S(Δ)
    adds more than it removes); `masked` sets all sums to which Δ contributes to 0, in S_e and in
    S_u, as the authors' program does, which is stable, and slower for small k.

    Bits: 32 · rows · columns.
    Cost: O(rows · d) per client.
    Needs: a rule that is a sum, and nothing between it and the wire.

    Args:
      rows: rows of the table.
      columns: sums per row; with d or more a message arrives unchanged.
      seed: the seed of hashes and signs, which are the same in all rounds.
      k: coordinates of the aggregate in a round; left out: all of them, without a memory.
      momentum: ρ, with `k`.
      masked: see above, with `k`.

    References:
      Charikar, Chen, Farach-Colton 2002, Finding Frequent Items in Data Streams; Rothchild et al.
      2020, FetchSGD, arXiv:2007.07682, Algorithm 1 (with its learning rate at the clients).
    """
    if k is None and (momentum or masked):
        raise ValueError("momentum and masked need k; give k, or leave them out")

    def encode(x, memory, key):
        del key
        shift, sign = draws(len(x))
        table = sketch_of_runs(x, shift, sign, columns)
        return table, VALUE_BITS * rows * columns, memory

    def decode(table, d):
        return estimate(table, hashes(d))

    def draws(d: int) -> tuple[Array, Array]:
        """Draw the shift of every run `[rows, runs]`, and the signs `[rows, d]`."""
        key = jax.random.key(seed)
        runs = -(-d // columns)
        shift = jax.random.randint(jax.random.fold_in(key, 0), (rows, runs), 0, columns)

        # 32 signs from every random word.
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

    server = None if k is None else AggregateStage(apply, init)
    return Codec(encode, decode, linear=True, server=server)


def sketch(x: Float[Array, " d"], hashes: Hashes, columns: int) -> Float[Array, "rows columns"]:
    """Return the table of a vector."""

    def row(column, sign):
        return jnp.zeros(columns, x.dtype).at[column].add(sign.astype(x.dtype) * x)

    return jax.vmap(row)(hashes.column, hashes.sign)


def sketch_of_runs(
    x: Float[Array, " d"], shift: Int[Array, "rows runs"], sign: Int[Array, "rows d"], columns: int
) -> Float[Array, "rows columns"]:
    """Return `sketch`, with the same bits, for runs of `columns` coordinates that are shifted.

    The runs are added in the order of memory.
    """
    runs = shift.shape[1]
    padding = runs * columns - len(x)

    def row(random):
        shift, sign = random
        signed = jnp.pad(sign.astype(x.dtype) * x, (0, padding)).reshape(runs, columns)

        def add(run, sums):
            values = jax.lax.dynamic_index_in_dim(signed, run, keepdims=False)
            twice = jnp.concatenate([values, values])
            return sums + jax.lax.dynamic_slice(twice, (columns - shift[run],), (columns,))

        return jax.lax.fori_loop(0, runs, add, jnp.zeros(columns, x.dtype))

    return jax.lax.map(row, (shift, sign))


def estimate(table: Float[Array, "rows columns"], hashes: Hashes) -> Float[Array, " d"]:
    """Decode a table: the median over its rows; of an even number, the mean of the middle two."""
    values = jnp.take_along_axis(table, hashes.column, axis=1) * hashes.sign.astype(table.dtype)
    if len(values) > NETWORK:
        return jnp.median(values, axis=0)

    # Odd-even transposition sort.
    rows = list(values)
    for turn in range(len(rows)):
        for low in range(turn % 2, len(rows) - 1, 2):
            a, b = rows[low], rows[low + 1]
            rows[low] = jnp.minimum(a, b)
            rows[low + 1] = jnp.maximum(a, b)
    return 0.5 * rows[(len(rows) - 1) // 2] + 0.5 * rows[len(rows) // 2]


class Sketches(NamedTuple):
    """State of the server, with `k`."""

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
    """Run a round of FetchSGD's server: the table of the cohort -> (its update, memory)."""
    velocity = momentum * memory.momentum + table
    error = memory.error + velocity

    values = estimate(error, hashes)
    indices = jax.lax.top_k(jnp.abs(values), k)[1]
    largest = Hashes(hashes.column[:, indices], hashes.sign[:, indices])
    update = jnp.zeros_like(values).at[indices].set(values[indices])

    sent = sketch(values[indices], largest, table.shape[1])
    if masked:
        mask = sent == 0
        return update, Sketches(jnp.where(mask, velocity, 0), jnp.where(mask, error, 0))
    return update, Sketches(velocity, error - sent)
