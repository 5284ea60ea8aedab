"""(IA)³: a factor for every output of a layer."""

import jax.numpy as jnp

from fedsim.compose import adapter
from fedsim.fields.adapters.factors import Scaled
from fedsim.types import Adapter

FACTORS = "ia3_l"


@adapter
def ia3(targets: list[str] | None = None) -> Adapter:
    """A factor for every output of a layer, before its b ((IA)³).

    x W becomes (x W) diag(l). l `[n]` starts at 1: the adapted model starts as the model itself,
    bit for bit. The paper scales keys, values and the inner layer of every perceptron: in
    `transformer`, `targets: ["*_attention", "*_wide"]`, where queries are scaled as well.

    Sends: n numbers for every target `[m, n]`, 4 bytes each.

    Args:
      targets: weights that are adapted, as in `lora`.

    Raises:
      ValueError: at build time, for targets that no leaf has.

    References:
      Liu et al. 2022, Few-Shot Parameter-Efficient Fine-Tuning is Better and Cheaper than
      In-Context Learning, arXiv:2205.05638, section 3.3.
    """

    def init(key, name, W):
        del key, name
        return {FACTORS: jnp.ones(W.shape[-1], W.dtype)}

    def apply(W, leaves, *, factored, key):
        del key
        return Scaled(W, leaves[FACTORS]) if factored else W * leaves[FACTORS]

    return Adapter(init=init, apply=apply, leaves=(FACTORS,), targets=targets)
