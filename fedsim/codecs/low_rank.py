"""Matrices of low rank."""

import itertools
import math
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Float

from fedsim.codecs.sizes import VALUE_BITS
from fedsim.compose import codec
from fedsim.types import Codec, Shapes

SEED = 0  # of the first Q of every leaf


@codec
def low_rank(rank: Annotated[int, Ge(1)] = 2) -> Codec:
    """Sends every matrix as a product of two thin ones, found by one step of power iteration.

    M ∈ ℝⁿˣᵐ, Q of the client's last message:  P̂ = orthonormalised(M Q);  Q ← Mᵀ P̂;  sent: P̂ and
    Q;  C(M) = P̂ Qᵀ = P̂ P̂ᵀ M. The first Q is Gaussian and the same for all clients; a column of Q
    that is 0 starts again from it. A leaf [..., n] is the matrix [n, m] of outputs × everything
    else, a convolution [height, width, in, out] one of `out` rows. Vectors and scalars travel as
    they are, and so does a matrix for which P̂ and Q would take as much.

    Bits: 32 r (n + m) a matrix, 32 a number that travels as it is.
    Biased: put it under `error_feedback`, as the paper does.
    Cost: O(r d + r² n) per client; r m numbers a matrix for every client that ever takes part.

    Args:
      rank: r; sent whole are matrices with r (n + m) ≥ n m.

    References:
      Vogels, Karimireddy, Jaggi 2019, PowerSGD: Practical Low-Rank Gradient Compression for
      Distributed Optimization, arXiv:1905.13727, Algorithm 1; there P and Q are means over all
      workers, and here each client has its own.
    """

    def shaped(shapes: Shapes) -> Codec:
        sizes, columns = (
            [math.prod(shape) for shape in shapes],
            [_columns(shape, rank) for shape in shapes],
        )
        numbers = [
            rank * (size // m + m) if m else size for size, m in zip(sizes, columns, strict=True)
        ]
        places = list(itertools.accumulate(sizes))[:-1]

        def memory(known):
            return tuple(start(i, m, known.dtype) for i, m in enumerate(columns) if m)

        def start(i: int, m: int, dtype) -> Array:
            return jax.random.normal(jax.random.fold_in(jax.random.key(SEED), i), (m, rank), dtype)

        def encode(x, memory, key):
            del key
            payload = []
            rows = []
            before = iter(memory)
            for i, (leaf, m) in enumerate(zip(jnp.split(x, places), columns, strict=True)):
                if not m:
                    payload.append(leaf)
                    continue
                P, Q = power_step(leaf.reshape(m, -1).T, next(before))
                payload.append((P, Q))
                rows.append(jnp.where(jnp.any(Q != 0, axis=0), Q, start(i, m, x.dtype)))
            return tuple(payload), VALUE_BITS * sum(numbers), tuple(rows)

        def decode(payload, d):
            del d
            product = lambda part: (part[1] @ part[0].T).ravel()
            return jnp.concatenate(
                [product(part) if m else part for part, m in zip(payload, columns, strict=True)]
            )

        return Codec(encode, decode, memory=memory)

    # of one leaf, a vector, until the leaves are known
    whole = lambda x, memory, key: (x, VALUE_BITS * len(x), memory)
    return Codec(whole, lambda payload, d: payload, memory=lambda known: (), shaped=shaped)


def _columns(shape: tuple[int, ...], rank: int) -> int:
    """Columns m of a leaf that is sent as a product, 0 of one that is not."""
    if len(shape) < 2 or not shape[-1]:
        return 0
    n = shape[-1]
    m = math.prod(shape[:-1])
    return m if rank * (n + m) < n * m else 0


def power_step(
    M: Float[Array, "n m"], Q: Float[Array, "m r"]
) -> tuple[Float[Array, "n r"], Float[Array, "m r"]]:
    """P and Q with P Qᵀ = P̂ P̂ᵀ M, for P̂ of the old Q.

    P takes the magnitude of M, so that Q does not overflow.
    """
    largest, tiny = jnp.max(jnp.abs(M)), jnp.finfo(M.dtype).tiny
    scale = jnp.clip(largest, tiny, 1 / tiny)
    M = M * (1 / scale)
    P = orthonormalised(M @ Q)
    return jax.lax.optimization_barrier((P * scale, M.T @ P))  # rounded as they are sent


def orthonormalised(P: Float[Array, "n r"]) -> Float[Array, "n r"]:
    """Gram–Schmidt, twice over every column; one that depends on those before it becomes 0."""
    n, r = P.shape
    unit = lambda v, least: jnp.where(
        norm(v) > least, v / jnp.where(norm(v) > least, norm(v), 1), 0
    )
    norm = lambda v: jnp.sqrt(jnp.sum(v * v))
    noise = 4 * jnp.finfo(P.dtype).eps

    def add(i, basis):
        column = P[:, i]
        column = unit(
            column * (1 / jnp.maximum(jnp.max(jnp.abs(column)), jnp.finfo(P.dtype).tiny)), 0
        )
        for _ in range(2):
            column = column - basis @ (basis.T @ column)
        return basis.at[:, i].set(unit(column, noise))

    return jax.lax.fori_loop(0, r, add, jnp.zeros((n, r), P.dtype))
