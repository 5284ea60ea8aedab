"""A robust learning rate: coordinates without a majority are reversed."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge

from fedsim import tree
from fedsim.compose import alias, folding, rule
from fedsim.rules.sign_majority import signs
from fedsim.tree import Tree
from fedsim.types import Context, Fold, Rule, Updates, by_samples, reported

alias(rlr="robust_learning_rate")


@rule
def robust_learning_rate(threshold: Annotated[int, Ge(0)]) -> Rule:
    """Sample-weighted mean, reversed in every coordinate where too few clients agree on the sign.

    aggᵈ = sᵈ · Σ_i n_i x_iᵈ / Σ_j n_j,  sᵈ = 1 where |Σ_i sign(x_iᵈ)| ≥ θ, else −1.
    Signs are not weighted.

    Resists: backdoors that move coordinates which the others leave alone; not large updates: put
    `clip` before it.
    Cost: O(K·D).    Needs: one row at a time.

    Args:
      threshold: θ, the majority in clients that a sign needs; 0 is the mean. The paper takes 4 to 7
        of 10, or 8 of 33.

    References:
      Ozdayi, Kantarcioglu, Gel 2021, Defending against Backdoors in Federated Learning with Robust
      Learning Rate, arXiv:2007.03767.

    >>> import fedsim
    >>> rule = {"kind": "robust_learning_rate", "threshold": 3}
    >>> fedsim.aggregate(rule, [[1.0, 1.0], [2.0, -1.0], [3.0, 3.0]]).tolist()
    [2.0, -1.0]
    """

    def zero(updates: Updates) -> Tree:
        row = tree.zero_row(updates.delta)
        return row, jnp.zeros_like(updates.samples[0]), row

    def add(sums: Tree, updates: Updates, context: Context) -> Tree:
        del context
        moved, weight, votes = sums
        w = by_samples(updates)
        moved, weight = tree.fold((moved, weight), (updates.delta, jnp.ones_like(w)), w)
        return moved, weight, tree.fold(votes, signs(updates.delta), reported(updates))

    def finish(sums: Tree, state: Tree, context: Context):
        del context
        moved, weight, votes = sums
        mean = tree.divide(moved, weight)
        signed = lambda x, v: jnp.where(jnp.abs(v) >= threshold, x, -x)
        return jax.tree.map(signed, mean, votes), state, {}

    return folding(Fold(zero, add, finish), by_samples)
