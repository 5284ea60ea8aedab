"""Gaussian noise on the aggregate."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.compose import aggregate_stage
from fedsim.tree import Tree
from fedsim.types import Context


@aggregate_stage
def aggregate_noise(std: Annotated[float, Ge(0)]):
    """Adds independent Gaussian noise to every coordinate of the aggregate, once a round.

    Δ̄ ← Δ̄ + N(0, std² I), before the optimisers. Behind `mean(denominator: expected)` a round in
    which nobody came is not skipped: the noise is added to its mean of 0.

    Resists: inference from the model about one client, where `clip` bounds every update; the
    section `privacy` does both, and counts ε.
    Cost: O(D).

    Args:
      std: the standard deviation on the aggregate. For m expected clients, updates clipped to C and
        a noise multiplier z it is z C / m.

    References:
      McMahan, Ramage, Talwar, Zhang 2018, Learning Differentially Private Recurrent Language
      Models, arXiv:1710.06963, Algorithm 1.
    """

    def change(aggregate: Tree, context: Context) -> Tree:
        return tree.noised(aggregate, context.key, jnp.asarray(std))

    return change
