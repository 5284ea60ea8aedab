"""FedVARP: last updates remove the variance that partial participation causes."""

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.rules.last_updates import Changes, LastUpdates, change_since_last, no_updates
from fedsim.types import Fold, Rule, reported


@rule
def fedvarp() -> Rule:
    """Mean change of the updates since each client's last one, plus the mean of all last updates.

    x ← x + (1/|S|) Σ_{i∈S} (Δ_i − y_i) + (1/N) Σ_{j=1}^N y_j ;  then y_i ← Δ_i for i ∈ S, with N
    clients that can take part, and y_i = 0 before the first update of a client. Where all clients
    are drawn with the same probability it is unbiased, and its variance vanishes as the y_i
    approach the updates; where they are not, it still converges to where the mean over all clients
    does.

    Corrects: the noise of small cohorts.
    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.
    State: one model, and one per client.
    Needs: one block at a time, and cohorts that draw a client once.
    Where everybody reports: `mean(uniform)`, but for rounding.

    References:
      Jhunjhunwala, Sharma, Nagarkatti, Joshi 2022, FedVARP: Tackling the Variance Due to Partial
      Client Participation in Federated Learning, arXiv:2207.14130.
    """

    def zero(updates):
        return Changes(tree.zero_row(updates.delta), jnp.zeros_like(updates.samples[0]))

    def add(total, updates, context):
        del context
        w = reported(updates)
        return Changes(*tree.fold(tuple(total), (updates.delta, jnp.ones_like(w)), w))

    def finish(total, state, context):
        change = tree.divide(total.change, total.count)
        step = jax.tree.map(lambda c, last: c + last / context.N, change, state.sum_of_last)
        return step, LastUpdates(tree.add(state.sum_of_last, total.change)), {}

    of_changes = folding(Fold(zero=zero, add=add, finish=finish), reported, no_updates)
    return of_changes._replace(before=change_since_last())
