"""FedVARP: the variance that comes from who takes part, taken out by last updates."""

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.rules.last_updates import LastUpdates, Summed, change_since_last, none_yet
from fedsim.types import Fold, Rule, reported


@rule
def fedvarp() -> Rule:
    """The mean of how updates changed since each client's last one, and the mean of the last ones of all clients.

    x ← x + (1/|S|) Σ_{i∈S} (Δ_i − y_i) + (1/N) Σ_{j=1}^N y_j ;  then y_i ← Δ_i for i ∈ S, with N clients that can take part,
    and y_i = 0 before the first update of a client. Unbiased where all clients are drawn alike, and of a variance that
    vanishes as the y_i come near the updates; where they are not, it still ends where the mean over all clients does.

    Corrects: the noise of small cohorts.    Resists: nothing; one client can move it anywhere.    Cost: O(K·D), one pass.
    State: a model, and one a client.    Needs: one block at a time, and cohorts that draw a client once.
    Where everybody reports: `mean(uniform)`, but for rounding.

    References:
      Jhunjhunwala, Sharma, Nagarkatti, Joshi 2022, FedVARP: Tackling the Variance Due to Partial Client Participation in
      Federated Learning, arXiv:2207.14130.
    """

    def zero(updates):
        return Summed(tree.zero_row(updates.delta), jnp.zeros_like(updates.samples[0]))

    def add(total, updates, context):
        del context
        w = reported(updates)
        return Summed(*tree.fold(tuple(total), (updates.delta, jnp.ones_like(w)), w))

    def finish(total, state, context):
        changed = tree.divide(total.change, total.count)
        step = jax.tree.map(
            lambda change, last: change + last / context.N, changed, state.sum_of_last
        )
        return step, LastUpdates(tree.add(state.sum_of_last, total.change)), {}

    made = folding(Fold(zero=zero, add=add, finish=finish), reported, none_yet)
    return made._replace(before=change_since_last())
