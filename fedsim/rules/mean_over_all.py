"""FedADMM's rule: the sum of the updates over the number of all clients."""

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.types import Fold, Rule, reported


@rule
def mean_over_all() -> Rule:
    """Sum of the updates over the number of all clients: absent clients count as unchanged.

    x ← x + (1/N) Σ_{i∈S} Δ_i, with N clients that can take part. Where clients send changes of a
    variable of theirs, and x starts as the mean of these variables, x remains the mean over all
    clients, whoever takes part.

    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.
    Needs: one block at a time.
    Where everybody reports: `mean(uniform)`.

    References:
      Gong, Li, Freris 2022, FedADMM, arXiv:2204.03529, Algorithm 1 with η = |S|/N.
    """

    def add(total, updates, context):
        del context
        return tree.fold(total, (updates.delta,), reported(updates))

    def finish(total, state, context):
        return tree.scale(total[0], 1 / context.N), state, {}

    zero = lambda updates: tree.zero_row((updates.delta,))
    return folding(Fold(zero=zero, add=add, finish=finish, linear=True), reported)
