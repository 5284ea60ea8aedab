"""FedAvgM's server optimiser: momentum."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from fedsim.compose import optimizer
from fedsim.tree import Tree

Rate = Annotated[float, Ge(0)]
Decay = Annotated[float, Ge(0), Lt(1)]

# What it is tuned over where a comparison says `ranges: true`.
ranges = {"lr": "log(1e-2, 1)"}


class Momentum(NamedTuple):
    """State of FedAvgM."""

    v: Tree


@optimizer
def fedavgm(
    lr: Rate = 1.0, momentum: Decay = 0.9, dampening: Decay = 0.0, nesterov: bool = False
) -> optax.GradientTransformation:
    """Server momentum.

    Δw = −Δ̄ ;  v ← β v + (1 − dampening) Δw ;  x ← x − η_g v,
    or x ← x − η_g (Δw + β v) with Nesterov;  v₀ = 0.

    State: v, one model.    Cost: O(D).    With β = 0: the rule alone.

    Args:
      lr: η_g.
      momentum: β; not an average: the paper adds the full Δw (`dampening: 0`).
      dampening: share of Δw that is left out.
      nesterov: look ahead.

    References:
      Hsu, Qi, Brown 2019, arXiv:1909.06335, section 4.
    """

    def update(updates, state, params=None):
        del params
        v = jax.tree.map(lambda v, w: momentum * v + (1 - dampening) * w, state.v, updates)
        direction = v
        if nesterov:
            direction = jax.tree.map(lambda v, w: w + momentum * v, v, updates)
        return jax.tree.map(lambda d: -lr * d, direction), Momentum(v)

    def init(params):
        return Momentum(jax.tree.map(jnp.zeros_like, params))

    return optax.GradientTransformation(init, update)
