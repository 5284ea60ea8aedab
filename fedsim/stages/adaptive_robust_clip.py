"""A bound on the length of each update that the other updates set."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge
from jax import lax

from fedsim import tree
from fedsim.compose import alias, stage
from fedsim.tree import Tree
from fedsim.types import Context, Stage, Updates

alias(arc="adaptive_robust_clip", adaptive_robust_clipping="adaptive_robust_clip")


@stage
def adaptive_robust_clip(f: Annotated[int, Ge(0)]) -> Stage:
    """Shortens the k longest updates to the length of the next longest.

    x_i ← x_i · min(1, C / ‖x_i‖₂),  C = the (k+1)-th largest of the m lengths,
    k = ⌊2·f·(m−f) / m⌋, so that at most k updates are shortened; norms over the whole tree.

    Resists: large updates of f malicious clients, f < m, together with a robust rule behind it.
    Cost: O(K·D).
    Needs: the whole stack.

    Reports: `adaptive_robust_clip/norm`, the C of the round.

    Args:
      f: malicious clients to expect; 0 shortens nothing.

    References:
      Allouah, Guerraoui, Gupta, Jellouli, Rizk, Stephan 2024, Boosting Robustness by Clipping
      Gradients in Distributed Learning, arXiv:2405.14432.

    >>> import fedsim
    >>> stage = {"kind": "adaptive_robust_clip", "f": 1}
    >>> fedsim.transmit(stage, [[1.0], [2.0], [-3.0], [8.0]])[0].round(3).tolist()
    [[1.0], [2.0], [-3.0], [3.0]]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        del context
        present = updates.arrived
        m = jnp.sum(updates.arrived)
        lengths = tree.norms(updates.delta, tree.zero_row(updates.delta))
        lengths = jnp.where(jnp.isnan(lengths), jnp.inf, lengths)

        k = 2 * f * (m - f) // jnp.maximum(m, 1)
        descending = jnp.sort(jnp.where(present, lengths, -jnp.inf), descending=True)
        bound = descending[jnp.clip(k, 0, len(present) - 1)]

        shorter = lax.map(lambda row: tree.clipped(row, bound), updates.delta)
        longer = present & (lengths > bound)
        delta = tree.select(longer, shorter, updates.delta)
        info = {"norm": jnp.where(m > 0, bound, 0)}
        return updates._replace(delta=delta), state, info

    return Stage(apply=apply, least=f + 1)
