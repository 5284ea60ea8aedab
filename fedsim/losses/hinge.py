"""The hinge loss of several classes."""

import jax
import jax.numpy as jnp

from fedsim.compose import loss
from fedsim.types import Loss


@loss
def hinge() -> Loss:
    """Hinge loss of support vector machines: how far the right class is from leading by 1.

    ℓ(z, y) = max(0, 1 + max_{c≠y} z_c − z_y). Of two classes it is max(0, 1 − m) with the margin m,
    the right output less the other one. Outputs are scores and no logits of probabilities.

    References:
      Crammer and Singer 2001, On the Algorithmic Implementation of Multiclass Kernel-based Vector
      Machines, Journal of Machine Learning Research 2; Cortes and Vapnik 1995, Support-Vector
      Networks, doi:10.1007/BF00994018.

    >>> hinge()(jnp.array([[0.5, 0.25, -3.0]]), jnp.array([0])).tolist()
    [0.75]
    """

    def of(outputs, y):
        is_own = jax.nn.one_hot(y, outputs.shape[-1], dtype=bool)
        own = jnp.sum(outputs, axis=-1, where=is_own)
        others = jnp.max(jnp.where(is_own, -jnp.inf, outputs), axis=-1)
        return jax.nn.relu(1 + others - own)

    return Loss(of, targets=frozenset({"classes", "tokens"}))
