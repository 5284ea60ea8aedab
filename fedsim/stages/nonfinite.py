"""An attack on messages: values that are not finite."""

from typing import Literal

import jax
import jax.numpy as jnp

from fedsim.compose import attack, row_attack
from fedsim.tree import Tree
from fedsim.types import Context, RowStage


@attack
def nonfinite(value: Literal["nan", "inf", "-inf"] = "nan") -> RowStage:
    """Sends an update that is not finite in any coordinate.

    x_i ← (NaN, …, NaN), or (±∞, …, ±∞), for every malicious client i; so does a client whose model
    diverged.

    Defence: the server's filter, which drops such rows and counts them; without it, a single row
    ruins a mean.
    Cost: O(D) per client.    Needs: one row at a time.

    Args:
      value: `nan`, `inf` or `-inf`.

    References:
      Blanchard et al. 2017, Machine Learning with Adversaries, arXiv:1703.02757: a Byzantine worker
      may send anything.

    >>> import fedsim
    >>> attack = {"kind": "nonfinite", "value": "inf"}
    >>> fedsim.transmit(attack, [[1.0], [2.0]], malicious=[1])[0].tolist()
    [[1.0], [inf]]
    """

    def corrupt(delta: Tree, context: Context) -> Tree:
        del context
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, float(value)), delta)

    return row_attack(corrupt)
