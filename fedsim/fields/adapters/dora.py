"""DoRA: magnitude and direction of every weight apart."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt

from fedsim.compose import adapter
from fedsim.fields.adapters.factors import LowRank, Scaled
from fedsim.fields.adapters.lora import A, B, start
from fedsim.types import Adapter

MAGNITUDE = "dora_m"


@adapter
def dora(
    rank: Annotated[int, Ge(1)] = 4,
    alpha: Annotated[float, Gt(0)] | None = None,
    targets: list[str] | None = None,
) -> Adapter:
    """A length for every output, next to a direction that a low-rank matrix moves (DoRA).

    W becomes V diag(m/‖V‖) with V = W + (alpha/rank) A B, where ‖V‖ `[n]` are the lengths of its
    columns, constants in the gradient. m starts at ‖W‖, A and B as in `lora`: the adapted model
    starts as the model itself, to rounding. A column of zeros has no direction: it keeps V until
    the pair has moved it.

    Sends: rank·(m + n) + n numbers for every target `[m, n]`, 4 bytes each.

    Args:
      rank: columns of A, at most min(m, n) of every target.
      alpha: the product counts alpha/rank; by default alpha = rank.
      targets: weights that are adapted, as in `lora`.

    Raises:
      ValueError: at build time, for targets that no leaf has, and for a rank above min(m, n).

    References:
      Liu et al. 2024, DoRA: Weight-Decomposed Low-Rank Adaptation, arXiv:2402.09353, equations 5
      and 11.
    """
    parts = Adapter(leaves=(A, B, MAGNITUDE), targets=targets, rank=rank, alpha=alpha)
    scale = parts.scale(rank)

    def init(key, name, W):
        return {**start(key, name, W, rank), MAGNITUDE: _lengths(W)}

    def apply(W, leaves, *, factored, key):
        del key
        V = LowRank(W, leaves[A], leaves[B], jnp.asarray(scale, W.dtype))
        lengths = jax.lax.stop_gradient(_lengths(V.merged()))
        is_zero = lengths == 0
        ratio = jnp.where(is_zero, 1, leaves[MAGNITUDE] / jnp.where(is_zero, 1, lengths))
        return Scaled(V, ratio) if factored and W.ndim == 2 else V.merged() * ratio

    return parts._replace(init=init, apply=apply)


def _lengths(W: jax.Array) -> jax.Array:
    """The lengths of the columns `[..., n]` -> `[n]`."""
    columns = W.reshape(-1, W.shape[-1])
    return jnp.sqrt(jnp.sum(columns * columns, axis=0))
