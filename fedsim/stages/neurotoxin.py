"""Neurotoxin: poison in the coordinates that other clients hardly change."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Gt, Le
from jax.flatten_util import ravel_pytree

from fedsim import tree
from fedsim.compose import attack
from fedsim.tree import Tree
from fedsim.types import Context, Stage, Updates


@attack
def neurotoxin(density: Annotated[float, Gt(0), Le(1)] = 0.95) -> Stage:
    """Sends the update only in the coordinates that the server's last step moved least.

    x_i ← x_i in the ⌊q·D⌋ coordinates where |x_t − x_{t−1}| is least, 0 in the others; ties go to
    the lowest coordinate. In the first round all are sent. These coordinates are seldom
    overwritten, so that a backdoor lasts. Combine it with an attack on data, and put it before an
    attack that boosts.

    Knows: the models that the server sent.
    Defence: rules that bound lengths bound it as well.
    Cost: O(D log D).
    Needs: the whole stack, and a model between rounds.

    Args:
      density: q, the share of coordinates that is sent.

    References:
      Zhang et al. 2022, Neurotoxin: Durable Backdoors in Federated Learning, arXiv:2206.10341,
      Algorithm 1.

    >>> import fedsim
    >>> fedsim.transmit("neurotoxin", [[1.0], [2.0]], malicious=[1])[0].tolist()
    [[1.0], [2.0]]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        params = context.shared["params"]
        step, unravel = ravel_pytree(tree.subtract(params, state))
        rank = jnp.argsort(jnp.argsort(jnp.abs(step), stable=True), stable=True)
        quiet = (rank < int(density * len(step))) | ~jnp.any(step != 0)
        mask = unravel(quiet.astype(step.dtype))
        masked = jax.tree.map(lambda x, m: jnp.where(m[None] > 0, x, 0), updates.delta, mask)
        delta = tree.select(context.malicious, masked, updates.delta)
        return updates._replace(delta=delta), params, {}

    return Stage(apply=apply, init=lambda params, present: params)
