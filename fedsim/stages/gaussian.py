"""An attack on messages: noise."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Gt

from fedsim.compose import attack, row_attack
from fedsim.tree import Tree
from fedsim.types import Context, RowStage


@attack
def gaussian(std: Annotated[float, Gt(0)]) -> RowStage:
    """Sends noise in place of the update.

    x_i ~ N(0, σ² I), independent in every coordinate, client and round; nothing of the honest
    update remains.

    Defence: any robust rule, for a large σ, which is easily seen.
    Cost: O(D) per client.
    Needs: one row at a time.

    Args:
      std: σ, of each coordinate.

    References:
      Blanchard et al. 2017, Machine Learning with Adversaries, arXiv:1703.02757, section 5 (there σ
      = 200).

    >>> import fedsim
    >>> rows = [[1.0] * 1000] * 2
    >>> sent, _ = fedsim.transmit({"kind": "gaussian", "std": 2.0}, rows, malicious=[1])
    >>> [round(float(row.std())) for row in sent]
    [0, 2]
    """

    def corrupt(delta: Tree, context: Context) -> Tree:
        leaves, structure = jax.tree.flatten(delta)
        noise = []
        for i, leaf in enumerate(leaves):
            # Normal numbers of half precision would take few values.
            dtype = jnp.promote_types(leaf.dtype, jnp.float32)
            normal = jax.random.normal(jax.random.fold_in(context.key, i), leaf.shape, dtype)
            noise.append((std * normal).astype(leaf.dtype))
        return jax.tree.unflatten(structure, noise)

    return row_attack(corrupt)
