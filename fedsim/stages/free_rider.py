"""Free riders: clients that send something without having trained."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.compose import attack
from fedsim.stages.knowledge import for_all
from fedsim.tree import Tree
from fedsim.types import Context, Stage, Updates


@attack
def free_rider(
    message: Literal["stale", "noise"] = "stale", std: Annotated[float, Ge(0)] = 0.0
) -> Stage:
    """Sends the last step of the shared model, or zeros, plus noise, in place of the update.

    `stale`: x_i ← x_t − x_{t−1} + σ ε_i, the server's step before this round (0 in the first one);
    `noise`: x_i ← σ ε_i;  ε_i is standard normal. With σ = 0, all free riders send the same; the
    attack `zero` is the free rider that sends zeros.

    Knows: the models that the server sent.
    Defence: the mean, up to a smaller step.
    Cost: O(D) per client.
    Needs: the whole stack, and a model between rounds.

    Args:
      message: what is sent.
      std: σ, of each coordinate.

    References:
      Lin, Du, Liu 2019, Free-riders in Federated Learning: Attacks and Defenses, arXiv:1911.12560
      (delta weights); Fraboni, Vidal, Lorenzi 2021, Free-rider Attacks on Model Aggregation,
      arXiv:2006.11901.

    >>> import fedsim
    >>> fedsim.transmit("free_rider", [[1.0], [2.0]], malicious=[1])[0].tolist()
    [[1.0], [0.0]]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        params = context.shared["params"]
        step = tree.subtract(params, state) if message == "stale" else tree.zeros_like(params)

        noised = lambda id: tree.noised(step, jax.random.fold_in(context.key, id), jnp.asarray(std))
        rows = jax.lax.map(noised, context.ids) if std else for_all(step, updates)
        delta = tree.select(context.malicious, rows, updates.delta)
        return updates._replace(delta=delta), params, {}

    return Stage(apply=apply, init=lambda params, present: params)
