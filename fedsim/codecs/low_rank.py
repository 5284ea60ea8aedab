"""PowerSGD: low-rank approximations of matrices."""

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
    """Sends every matrix of a message as a product of two thin ones, by a step of power iteration.

    M ∈ ℝⁿˣᵐ, Q of the client's last message:  P̂ = orthonormalised(M Q);  Q ← Mᵀ P̂;
    sent: P̂ and Q;  C(M) = P̂ Qᵀ = P̂ P̂ᵀ M.
    The first Q is Gaussian and the same for all clients; a column of Q that is 0 restarts from it.
    A leaf [..., n] is the matrix [n, m] of outputs × everything else, a convolution
    [height, width, in, out] a matrix with `out` rows. Vectors and scalars are sent unchanged, and
    so is a matrix for which P̂ and Q would take as much.

    Bits: 32 r (n + m) per matrix, 32 per number that is sent unchanged.
    Biased: put it under `error_feedback`, as the paper does.
    Cost: O(r d + r² n) per client; r m numbers per matrix for every client that ever takes part.

    Args:
      rank: r; matrices with r (n + m) ≥ n m are sent unchanged.

    References:
      Vogels, Karimireddy, Jaggi 2019, PowerSGD: Practical Low-Rank Gradient Compression for
      Distributed Optimization, arXiv:1905.13727, Algorithm 1; there P and Q are means over all
      workers, and here each client has its own.
    """

    def shaped(shapes: Shapes) -> Codec:
        sizes = [math.prod(shape) for shape in shapes]
        columns = [_columns(shape, rank) for shape in shapes]
        ends = list(itertools.accumulate(sizes))[:-1]

        numbers = 0
        for size, m in zip(sizes, columns, strict=True):
            numbers += rank * (size // m + m) if m else size

        def start(i: int, m: int, dtype) -> Array:
            return jax.random.normal(jax.random.fold_in(jax.random.key(SEED), i), (m, rank), dtype)

        def memory(known):
            return tuple(start(i, m, known.dtype) for i, m in enumerate(columns) if m)

        def encode(x, memory, key):
            del key
            payload = []
            new_memory = []
            last_Q = iter(memory)
            for i, (leaf, m) in enumerate(zip(jnp.split(x, ends), columns, strict=True)):
                if not m:
                    payload.append(leaf)
                    continue
                P, Q = power_step(leaf.reshape(m, -1).T, next(last_Q))
                payload.append((P, Q))
                new_memory.append(jnp.where(jnp.any(Q != 0, axis=0), Q, start(i, m, x.dtype)))
            return tuple(payload), VALUE_BITS * numbers, tuple(new_memory)

        def decode(payload, d):
            del d
            leaves = []
            for sent, m in zip(payload, columns, strict=True):
                if not m:
                    leaves.append(sent)
                    continue
                P, Q = sent
                leaves.append((Q @ P.T).ravel())
            return jnp.concatenate(leaves)

        return Codec(encode, decode, memory=memory)

    # Until the shapes of the leaves are known, a message is a vector, which is sent unchanged.
    return Codec(
        encode=lambda x, memory, key: (x, VALUE_BITS * len(x), memory),
        decode=lambda payload, d: payload,
        memory=lambda known: (),
        shaped=shaped,
    )


def _columns(shape: tuple[int, ...], rank: int) -> int:
    """The columns m of a leaf that is sent as a product; 0 for one that is not."""
    if len(shape) < 2 or not shape[-1]:
        return 0
    n = shape[-1]
    m = math.prod(shape[:-1])
    return m if rank * (n + m) < n * m else 0


def power_step(
    M: Float[Array, "n m"], Q: Float[Array, "m r"]
) -> tuple[Float[Array, "n r"], Float[Array, "m r"]]:
    """Return P and Q with P Qᵀ = P̂ P̂ᵀ M, for P̂ of the old Q.

    P has the magnitude of M, so that Q does not overflow.
    """
    # A leaf holds the transpose, which is never transposed: M Q is (Qᵀ Mᵀ)ᵀ.
    transposed = M.T
    tiny = jnp.finfo(M.dtype).tiny
    scale = jnp.clip(jnp.max(jnp.abs(transposed)), tiny, 1 / tiny)
    unit = transposed * (1 / scale)
    P = orthonormalised((Q.T @ unit).T)

    # The barrier rounds them as they are sent.
    return jax.lax.optimization_barrier((P * scale, unit @ P))


def orthonormalised(P: Float[Array, "n r"]) -> Float[Array, "n r"]:
    """Orthonormalise columns by Gram–Schmidt, twice for every column.

    A column that depends on those before it becomes 0.
    """
    n, r = P.shape
    noise = 4 * jnp.finfo(P.dtype).eps

    def norm(v):
        return jnp.sqrt(jnp.sum(v * v))

    def unit(v, least):
        """The vector at length 1, or 0 where it is not longer than `least`."""
        return jnp.where(norm(v) > least, v / jnp.where(norm(v) > least, norm(v), 1), 0)

    def add(i, basis):
        column = P[:, i]
        largest = jnp.maximum(jnp.max(jnp.abs(column)), jnp.finfo(P.dtype).tiny)
        column = unit(column * (1 / largest), 0)
        for _ in range(2):
            column = column - basis @ (basis.T @ column)
        return basis.at[:, i].set(unit(column, noise))

    return jax.lax.fori_loop(0, r, add, jnp.zeros((n, r), P.dtype))
