"""Stochastic gradient descent with momentum and weight decay, as in PyTorch."""

from typing import Annotated, no_type_check

import optax
from annotated_types import Ge

from fedsim.compose import optimizer


@optimizer
@no_type_check  # lr is traced on clients
def sgd(
    lr: Annotated[float, Ge(0)],
    momentum: float | None = None,
    nesterov: bool = False,
    weight_decay: Annotated[float, Ge(0)] = 0.0,
) -> optax.GradientTransformation:
    """Gradient descent, with momentum and weight decay where they are given.

    g ← g + λ y ;  v ← μ v + g ;  y ← y − η v,  or y ← y − η (g + μ v) with Nesterov;  v₀ = 0.

    With momentum its state is v, one model. With μ = 0 and λ = 0: y ← y − η g.

    Args:
      lr: η, the length of a step.
      momentum: μ; not an average: the full gradient is added.
      nesterov: look ahead.
      weight_decay: λ, the share of the parameters that is added to the gradient, before momentum.

    References:
      Sutskever, Martens, Dahl, Hinton 2013, On the importance of initialization and momentum in
      deep learning. `torch.optim.SGD` with `dampening=0`.
    """
    descent = optax.sgd(lr, momentum, nesterov)
    if weight_decay:
        return optax.chain(optax.add_decayed_weights(weight_decay), descent)
    return descent
