"""LoRA: a low-rank matrix next to every frozen weight."""

import math
from collections.abc import Callable
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt

from fedsim.compose import adapter
from fedsim.fields.adapters.factors import LowRank
from fedsim.tree import draws
from fedsim.types import LOW_RANK, Adapter

A, B = LOW_RANK


@adapter
def lora(
    rank: Annotated[int, Ge(1)] = 4,
    alpha: Annotated[float, Gt(0)] | None = None,
    targets: list[str] | None = None,
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0,
) -> Adapter:
    """A low-rank matrix next to every frozen weight (LoRA).

    x W becomes x W + (alpha/rank) x A B, with A `[m, rank]` and B `[rank, n]` for W `[m, n]`. A
    starts uniform in ±√(1/m), B at zero, so that the adapted model starts as the model itself, bit
    for bit. A kernel `[height, width, in, n]` is the matrix `[height·width·in, n]`.

    Sends: rank·(m + n) numbers for every target, 4 bytes each.

    Args:
      rank: columns of A, at most min(m, n) of every target.
      alpha: the product counts alpha/rank; by default alpha = rank.
      targets: weights that are adapted, by their full names or by the parts between dots, as
        `[last]`, `["block*.W"]`; by default all matrices that the model multiplies by.
      dropout: share of the numbers of x that are 0 in x A while training; the others are divided by
        1 − dropout.

    Raises:
      ValueError: at build time, for targets that no leaf has, for a rank above min(m, n), and for
        dropout where x W is not one of the model's own products, as in a convolution.

    References:
      Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, arXiv:2106.09685,
      equation 3.
    """
    pair = Adapter(
        leaves=(A, B), targets=targets, factored_only=dropout > 0, rank=rank, alpha=alpha
    )
    scale = pair.scale(rank)

    def init(key, name, W):
        return start(key, name, W, rank)

    def apply(W, leaves, *, factored, key):
        low_rank = LowRank(W, leaves[A], leaves[B], jnp.asarray(scale, W.dtype))
        if dropout and key is not None:
            return Dropped(low_rank, dropout, key)
        return low_rank if factored and W.ndim == 2 else low_rank.merged()

    return pair._replace(init=init, apply=apply)


class Dropped(NamedTuple):
    """A low-rank weight whose A sees x without some of its numbers."""

    weight: LowRank
    share: float
    key: jax.Array

    def times(self, x: jax.Array, product: Callable) -> jax.Array:
        """Return x W + scale · (x' A) B."""
        W, A, B, scale = self.weight
        kept = jax.random.bernoulli(self.key, 1 - self.share, x.shape)
        dropped = jnp.where(kept, x / (1 - self.share), 0).astype(x.dtype)
        return product(x, W) + scale * product(product(dropped, A), B)


def start(key: jax.Array, name: str, W: jax.Array, rank: int) -> dict[str, jax.Array]:
    """Return A uniform in ±√(1/m) and B at zero."""
    m = math.prod(W.shape[:-1])
    n = W.shape[-1]
    if rank > min(m, n):
        text = f"{rank} is more than min(m, n) of {name} {[m, n]}"
        raise ValueError(f"adapter.rank: {text}; lower it, or leave {name} out of targets")
    bound = math.sqrt(1 / m)
    return {
        A: draws.uniform_within(key, (m, rank), bound, W.dtype),
        B: jnp.zeros((rank, n), W.dtype),
    }
