"""Adapters with a bottleneck: a small perceptron behind a layer."""

import math
from collections.abc import Callable
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array

from fedsim.compose import adapter
from fedsim.tree import draws
from fedsim.types import Adapter

LEAVES: tuple[str, ...] = ("adapter_D", "adapter_d", "adapter_U", "adapter_u")


class Bottleneck(NamedTuple):
    """A weight with a perceptron behind its product."""

    W: jax.Array  # [m, n]
    D: jax.Array  # [n, size]
    d: jax.Array  # [size]
    U: jax.Array  # [size, n]
    u: jax.Array  # [n]

    def times(self, x: jax.Array, product: Callable) -> jax.Array:
        """Return h + GELU(h D + d) U + u with h = x W."""
        h = product(x, self.W)
        inner = jax.nn.gelu(product(h, self.D) + self.d)
        return h + (product(inner, self.U) + self.u)


@adapter
def bottleneck(size: Annotated[int, Ge(1)] = 8, targets: list[str] | None = None) -> Adapter:
    """A small perceptron behind a layer, through a bottleneck (adapters).

    h = x W becomes h + GELU(h D + d) U + u; the layer's b comes after it. D `[n, size]` starts
    uniform in ±√(1/n), d, U and u at zero: the adapted model starts as the model itself, bit for
    bit. The paper has one behind attention and one behind each perceptron: in `transformer`,
    `targets: ["*_mixed", "*_narrow"]`.

    Sends: 2·n·size + n + size numbers for every target `[m, n]`, 4 bytes each.

    Args:
      size: width of the bottleneck.
      targets: weights that are adapted, as in `lora`; of `mlp`, `logistic`, `linear` and
        `transformer`.

    Raises:
      ValueError: at build time, for targets that no leaf has, and for those of other models.

    References:
      Houlsby et al. 2019, Parameter-Efficient Transfer Learning for NLP, arXiv:1902.00751,
      figure 2.
    """

    def init(key: Array, name: str, W: Array) -> dict[str, Array]:
        del name
        n = W.shape[-1]
        bound = math.sqrt(1 / n)
        D = draws.uniform_within(key, (n, size), bound, W.dtype)
        d, U, u = (jnp.zeros(shape, W.dtype) for shape in (size, (size, n), n))
        return dict(zip(LEAVES, (D, d, U, u), strict=True))

    def apply(W, leaves, *, factored, key):
        del factored, key
        return Bottleneck(W, *(leaves[name] for name in LEAVES))

    return Adapter(init=init, apply=apply, leaves=LEAVES, targets=targets, factored_only=True)
