"""FedDyn's rule: the uniform mean, corrected by the drift of all clients."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Gt

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.tree import Tree
from fedsim.types import Fold, Rule, reported


class Dynamics(NamedTuple):
    """State of FedDyn's server."""

    h: Tree


@rule
def dyn(alpha: Annotated[float, Gt(0)] = 0.1) -> Rule:
    """FedDyn's rule: the uniform mean, corrected by the drift of all clients so far.

    h ← h − (α/N) Σ_{i∈S} Δ_i ;  x ← mean_S (x + Δ_i) − h/α, with h = 0 at the start and N clients
    that can take part.

    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.
    State: h, one model.
    Needs: one block at a time, and the client method `feddyn` with the same α.

    Args:
      alpha: α, of the clients' regulariser.

    References:
      Acar et al. 2021, Federated Learning Based on Dynamic Regularization, arXiv:2111.04263,
      Algorithm 1.
    """

    def zero(updates):
        return tree.zero_row((updates.delta, updates.samples))

    def add(total, updates, context):
        del context
        w = reported(updates)
        return tree.fold(total, (updates.delta, jnp.ones_like(w)), w)

    def finish(total, state, context):
        moved, m = total
        h = jax.tree.map(lambda h, d: h - alpha / context.N * d, state.h, moved)
        step = jax.tree.map(lambda d, h: d - h / alpha, tree.divide(moved, m), h)
        return step, Dynamics(h), {}

    init = lambda params, present: Dynamics(tree.zeros_like(params))
    dynamic = folding(Fold(zero=zero, add=add, finish=finish), reported, init)
    return dynamic._replace(client=("feddyn", {"alpha": alpha}))
