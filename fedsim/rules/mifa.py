"""MIFA: absent clients take part by their last update."""

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.rules.last_updates import LastUpdates, change_since_last, no_updates
from fedsim.types import Fold, Rule, reported


@rule
def mifa() -> Rule:
    """The mean over all clients of their last updates, whoever is there.

    y_i ← Δ_i for i ∈ S;  x ← x + (1/N) Σ_{i=1}^N y_i, with N clients that can take part, and
    y_i = 0 before the first update of a client. In the paper, round 1 waits until every client has
    answered; to do so here, put all of them into the first round. A round in which nobody came
    repeats the step of the last updates, and goes through the optimisers behind the rule.

    Corrects: clients that are often away, whatever the pattern; old updates cost as much as x has
    moved since.
    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.
    State: one model, and one per client.
    Needs: one block at a time, and cohorts that draw a client once.
    Where everybody reports: `mean(uniform)`, but for rounding.

    References:
      Gu, Huang, Zhang, Huang 2021, Fast Federated Learning in the Presence of Arbitrary Device
      Unavailability, arXiv:2106.04159, Algorithm 1. There G_i = −Δ_i / η, so that old updates
      follow a changing client learning rate η; here the server stores Δ_i, which stays the same.
    """

    def add(total, updates, context):
        del context
        return tree.fold(total, updates.delta, reported(updates))

    def finish(total, state, context):
        last = tree.add(state.sum_of_last, total)
        return tree.divide(last, context.N), LastUpdates(last), {}

    fold = Fold(zero=lambda updates: tree.zero_row(updates.delta), add=add, finish=finish)
    return folding(fold, reported, no_updates)._replace(before=change_since_last(), least=0)
