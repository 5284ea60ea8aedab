"""Majority vote of the signs."""

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import alias, folding, rule
from fedsim.tree import Tree
from fedsim.types import Context, Fold, Rule, Updates, reported

alias(signsgd="sign_majority", majority_vote="sign_majority")


@rule
def sign_majority() -> Rule:
    """Coordinate-wise sign of the majority.

    aggᵈ = sign(Σ_i sign(x_iᵈ)):  1, −1, or 0 where as many are above zero as below. A value that is
    NaN does not vote. The server sets the length of the step: put `{kind: sgd, lr: ...}` behind
    this rule. Sample counts are ignored.

    Resists: fewer than half of the clients, in every coordinate where the others agree; it never
    moves farther than 1.
    Cost: O(K·D).    Needs: one row at a time.

    References:
      Bernstein, Wang, Azizzadenesheli, Anandkumar 2018, signSGD: Compressed Optimisation for
      Non-Convex Problems, arXiv:1802.04434; Bernstein, Zhao, Azizzadenesheli, Anandkumar 2019,
      signSGD with Majority Vote is Communication Efficient and Fault Tolerant, arXiv:1810.05291.

    >>> import fedsim
    >>> fedsim.aggregate("sign_majority", [[1.0, 2.0], [2.0, -2.0], [-1e9, 0.0]]).tolist()
    [1.0, 0.0]
    """

    def add(votes: Tree, updates: Updates, context: Context) -> Tree:
        del context
        return tree.fold(votes, signs(updates.delta), reported(updates))

    def finish(votes: Tree, state: Tree, context: Context):
        del context
        return jax.tree.map(jnp.sign, votes), state, {}

    fold = Fold(zero=lambda updates: tree.zero_row(updates.delta), add=add, finish=finish)
    return folding(fold, reported)


def signs(stacked: Tree) -> Tree:
    """The sign of every value; 0 for NaN."""
    return jax.tree.map(lambda x: jnp.where(jnp.isnan(x), 0, jnp.sign(x)), stacked)
