"""The mean where clients have parts of the model: every number over those who train it."""

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import folding
from fedsim.types import Fold, Rule, Updates


def mean_of_parts(plain: Rule) -> Rule:
    """Return the rule that takes the place of the mean where clients train parts of the model.

    Δ̄ = Σ_{i∈S} w_i m_i Δ_i / Σ_{i∈S} w_i m_i, number by number, over the clients S of the round
    that reported; m_i is 1 for the numbers that client i trains, and 0 for the others. It is 0 for
    a number that none of them trains.

    Args:
      plain: the mean, whose weights w_i count.

    References:
      Diao, Ding, Tarokh 2021, arXiv:2010.01264, equations 2 to 5, for sub-models within one
      another, and the authors' code for the last layer under a masked loss; Alam et al. 2022,
      arXiv:2212.01548, Algorithm 1, for others.
    """

    def zero(updates: Updates):
        total = tree.zero_row(updates.delta)
        return total, total

    def add(total, updates, context):
        has = context.trained
        sent = jax.tree.map(lambda has, delta: jnp.where(has, delta, 0), has, updates.delta)
        ones = jax.tree.map(lambda has, delta: has.astype(delta.dtype), has, updates.delta)
        return tree.fold(total, (sent, ones), plain.weights(updates))

    def finish(total, state, context):
        del context
        means = jax.tree.map(tree.divide, *total)
        return means, state, {}

    return folding(Fold(zero=zero, add=add, finish=finish), plain.weights)
