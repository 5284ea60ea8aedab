"""Server optimisers of the papers, as optax transformations of the pseudo-gradient −Δ̄.

They differ from optax's optimisers of these names: there is no bias correction, v starts at τ², and
τ is outside the root.
"""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Lt

from fedsim.compose import optimizer
from fedsim.tree import Tree

Rate = Annotated[float, Ge(0)]
Decay = Annotated[float, Ge(0), Lt(1)]

# What it is tuned over where a comparison says `ranges: true`.
ranges = {"fedadam": {"lr": "log(1e-3, 1e-1)"}, "fedyogi": {"lr": "log(1e-3, 1e-1)"}}


class Moments(NamedTuple):
    """State of FedAdagrad, FedAdam and FedYogi."""

    m: Tree
    v: Tree


def _moments(
    lr: Any, b1: float, tau: float, v0: float | None, grow: Any
) -> optax.GradientTransformation:
    """Algorithm 2: m ← β₁ m + (1 − β₁) Δ̄ ; v ← grow(v, Δ̄²) ; x ← x + η m / (√v + τ)."""

    def init(params):
        start = tau**2 if v0 is None else v0
        m = jax.tree.map(jnp.zeros_like, params)
        v = jax.tree.map(lambda p: jnp.full_like(p, start), params)
        return Moments(m, v)

    def update(updates, state, params=None):
        del params
        m = jax.tree.map(lambda m, g: b1 * m - (1 - b1) * g, state.m, updates)
        v = jax.tree.map(lambda v, g: grow(v, g * g), state.v, updates)
        step = jax.tree.map(lambda m, v: lr * m / (jnp.sqrt(v) + tau), m, v)
        return step, Moments(m, v)

    return optax.GradientTransformation(init, update)


@optimizer
def fedadagrad(
    lr: Rate = 0.1, b1: Decay = 0.0, tau: Annotated[float, Gt(0)] = 1e-3, v0: Rate | None = None
) -> optax.GradientTransformation:
    """FedAdagrad of the paper.

    m ← β₁ m + (1 − β₁) Δ̄ ;  v ← v + Δ̄² ;  x ← x + η m / (√v + τ).

    State: m and v, two models; v never shrinks.    Cost: O(D).

    Args:
      lr: η.
      b1: β₁.
      tau: τ, the degree of adaptivity.
      v0: start of v; τ² where it is null.

    References:
      Reddi et al. 2021, Adaptive Federated Optimization, arXiv:2003.00295, Algorithm 2.
    """
    return _moments(lr, b1, tau, v0, lambda v, g2: v + g2)


@optimizer
def fedadam(
    lr: Rate = 0.1,
    b1: Decay = 0.9,
    b2: Decay = 0.99,
    tau: Annotated[float, Gt(0)] = 1e-3,
    v0: Rate | None = None,
) -> optax.GradientTransformation:
    """FedAdam of the paper, without bias correction (optax's `adam` is another rule).

    m ← β₁ m + (1 − β₁) Δ̄ ;  v ← β₂ v + (1 − β₂) Δ̄² ;  x ← x + η m / (√v + τ).

    State: m and v, two models.    Cost: O(D).

    Args:
      lr: η.
      b1: β₁.
      b2: β₂.
      tau: τ, the degree of adaptivity.
      v0: start of v; τ² where it is null.

    References:
      Reddi et al. 2021, Adaptive Federated Optimization, arXiv:2003.00295, Algorithm 2.
    """
    return _moments(lr, b1, tau, v0, lambda v, g2: b2 * v + (1 - b2) * g2)


@optimizer
def fedyogi(
    lr: Rate = 0.1,
    b1: Decay = 0.9,
    b2: Decay = 0.99,
    tau: Annotated[float, Gt(0)] = 1e-3,
    v0: Rate | None = None,
) -> optax.GradientTransformation:
    """FedYogi of the paper.

    m ← β₁ m + (1 − β₁) Δ̄ ;  v ← v − (1 − β₂) Δ̄² sign(v − Δ̄²) ;  x ← x + η m / (√v + τ).

    State: m and v, two models; v changes by at most (1 − β₂) Δ̄².    Cost: O(D).

    Args:
      lr: η.
      b1: β₁.
      b2: β₂.
      tau: τ, the degree of adaptivity.
      v0: start of v; τ² where it is null.

    References:
      Reddi et al. 2021, Adaptive Federated Optimization, arXiv:2003.00295, Algorithm 2.
    """
    return _moments(lr, b1, tau, v0, lambda v, g2: v - (1 - b2) * g2 * jnp.sign(v - g2))
