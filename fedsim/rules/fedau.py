"""FedAU: weights from how long clients stay away, learned during the run."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge

from fedsim.compose import rule
from fedsim.rules.mean_over_all import mean_over_all
from fedsim.types import Context, RowStage, Rule, Updates


@rule
def fedau(cutoff: Annotated[int, Ge(1)] | None = 50) -> Rule:
    """Sum of the updates, weighted by estimates of 1/π_i, over the number of all clients.

    x ← x + (1/N) Σ_{i∈S} ω_i Δ_i, with N clients that can take part. ω_i, the estimate, is the mean
    interval between rounds of the client, over the intervals that ended before this round; 1 where
    there is none. An interval ends with a round in which the client's message arrives, or with its
    `cutoff`-th round, so that one long absence does not weigh too much.

    Corrects: unequal participation at unknown rates; where the rates are known, take
    `horvitz_thompson(shares: known)`, which estimates nothing.
    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.
    State: three numbers per client.
    Needs: one block at a time, and cohorts that draw a client once.
    Where everybody always reports, or with cutoff 1: `mean_over_all`.

    Args:
      cutoff: K, rounds after which an interval ends; null: no limit.

    References:
      Wang, Ji 2024, A Lightweight Method for Tackling Unknown Participation Statistics in Federated
      Averaging, arXiv:2306.03401, Algorithms 1 and 2 with p_n = 1/N; ω is computed when it is
      needed, not in every round.
    """
    return mean_over_all()._replace(before=weighted_by_absence(cutoff))


def weighted_by_absence(cutoff: int | None) -> RowStage:
    """Δ_i ← ω_i Δ_i, where ω_i is the mean of the client's intervals; `seen` is its last round."""

    def memory(params, key):
        del params, key
        return {"omega": jnp.ones(()), "intervals": jnp.int32(0), "seen": jnp.int32(0)}

    def apply(updates: Updates, context: Context) -> Updates:
        row = updates.memory
        rounds = context.round - row["seen"]  # since the client's last one, this one included

        # An absence counts as `complete` intervals of `cutoff` rounds, and one of the rest.
        if cutoff is None:
            complete = jnp.zeros_like(rounds)
            rest = rounds
        else:
            complete = (rounds - 1) // cutoff
            rest = rounds - complete * cutoff

        omega = _extended_mean(row["omega"], row["intervals"], complete, complete * (cutoff or 0))
        intervals = row["intervals"] + complete
        memory = {
            "omega": _extended_mean(omega, intervals, 1, rest),
            "intervals": intervals + 1,
            "seen": 0 * rounds + context.round,
        }
        delta = jax.tree.map(lambda x: x * omega.astype(x.dtype), updates.delta)
        return updates._replace(delta=delta, memory=memory)

    return RowStage(apply=apply, name="participation", memory=memory)


def _extended_mean(mean, count, added, length):
    """Extend a mean of `count` intervals by `added` more, whose lengths sum to `length`."""
    total = (count + added).astype(mean.dtype)
    extended = (mean * count.astype(mean.dtype) + length) / jnp.maximum(total, 1)
    return jnp.where(total > 0, extended.astype(mean.dtype), mean)
