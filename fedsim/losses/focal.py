"""The focal loss."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Ge, MinLen

from fedsim.compose import loss
from fedsim.losses.cross_entropy import Weight, plain
from fedsim.losses.weights import as_class_weights
from fedsim.types import Loss


@loss
def focal(
    gamma: Annotated[float, Ge(0)] = 2.0,
    class_weights: Literal["balanced", "balanced_by_client"]
    | Annotated[list[Weight], MinLen(1)]
    | None = None,
) -> Loss:
    """Focal loss: cross-entropy in which samples that are well classified count less.

    ℓ(z, y) = −w_y (1 − p_y)^γ ln p_y, p = softmax(z). With γ = 0: `cross_entropy`.

    Args:
      gamma: γ, how fast the loss falls with the probability of the right class.
      class_weights: w (α of the paper), as of `cross_entropy`.

    References:
      Lin et al. 2017, Focal Loss for Dense Object Detection, arXiv:1708.02002, equation 5.

    >>> focal(gamma=2.0)(jnp.array([[0.0, 0.0]]), jnp.array([1])).round(4).tolist()
    [0.17329999804496765]
    """

    def of(outputs, y):
        """ln(1 − p) is made of the other outputs, so that no gradient is of ln 0."""
        is_own = jax.nn.one_hot(y, outputs.shape[-1], dtype=bool)
        others = jnp.where(is_own, -jnp.inf, outputs)
        has_others = jnp.any(others > -jnp.inf, axis=-1)
        rest = jnp.where(has_others[..., None], others, outputs)
        log_miss = jax.nn.logsumexp(rest, axis=-1) - jax.nn.logsumexp(outputs, axis=-1)
        return jnp.where(has_others, jnp.exp(gamma * log_miss) * plain(outputs, y), 0)

    return Loss(
        of if gamma else plain,
        targets=frozenset({"classes", "tokens"}),
        probabilities=True,
        class_weights=as_class_weights(class_weights),
    )
