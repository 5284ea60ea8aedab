"""VeRA: random low-rank matrices that nobody trains, and two trained vectors for every weight."""

import math
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt
from jaxtyping import Array

from fedsim.compose import adapter
from fedsim.fields.adapters.factors import LowRank
from fedsim.tree import draws
from fedsim.types import Adapter

MATRICES: tuple[str, ...] = ("vera_A", "vera_B")
VECTORS: tuple[str, ...] = ("vera_d", "vera_b")


@adapter
def vera(
    rank: Annotated[int, Ge(1)] = 64,
    d: Annotated[float, Gt(0)] = 0.1,
    targets: list[str] | None = None,
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0,
) -> Adapter:
    """Two vectors for every weight, next to random matrices that nobody trains or sends (VeRA).

    x W becomes x W + x A diag(d) B diag(b), with A `[m, rank]` and B `[rank, n]` drawn once (He,
    uniform in ±√(6/m) and ±√(6/rank)): weights of one shape have the same ones. d `[rank]` starts
    at `d` and b `[n]` at zero: the adapted model starts as the model itself, bit for bit.

    Sends: rank + n numbers for every target `[m, n]`, 4 bytes each.

    Args:
      rank: columns of A.
      d: start value of d.
      targets: weights that are adapted, as in `lora`.
      seed: of A and B.

    Raises:
      ValueError: at build time, for targets that no leaf has.

    References:
      Kopiczko, Blankevoort, Asano 2024, VeRA: Vector-based Random Matrix Adaptation,
      arXiv:2310.11454, equation 2.
    """

    def init(key: Array, name: str, W: Array) -> dict[str, Array]:
        del key, name
        m = math.prod(W.shape[:-1])
        n = W.shape[-1]
        A_key, B_key = jax.random.split(jax.random.key(seed))
        A = _he(A_key, (m, rank), W.dtype)
        B = _he(B_key, (rank, n), W.dtype)
        vectors = (jnp.full(rank, d, W.dtype), jnp.zeros(n, W.dtype))
        return dict(zip(MATRICES + VECTORS, (A, B, *vectors), strict=True))

    def apply(W, leaves, *, factored, key):
        del key
        A, B, of_rows, of_columns = (leaves[name] for name in MATRICES + VECTORS)
        low_rank = LowRank(W, A * of_rows, B * of_columns, jnp.ones((), W.dtype))
        return low_rank if factored and W.ndim == 2 else low_rank.merged()

    return Adapter(init=init, apply=apply, leaves=VECTORS, targets=targets)


def _he(key: jax.Array, shape: tuple[int, int], dtype) -> jax.Array:
    """Uniform in ±√(6/fan_in)."""
    bound = math.sqrt(6 / shape[0])
    return draws.uniform_within(key, shape, bound, dtype)
