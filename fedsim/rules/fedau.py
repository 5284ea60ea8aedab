"""FedAU: weights from how long clients stay away, which nobody told beforehand."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge

from fedsim.compose import rule
from fedsim.rules.mean_over_all import mean_over_all
from fedsim.types import Context, RowStage, Rule, Updates


@rule
def fedau(cutoff: Annotated[int, Ge(1)] | None = 50) -> Rule:
    """Updates times an estimate of 1/π_i, the mean interval between two of a client's rounds; their sum over all clients.

    x ← x + (1/N) Σ_{i∈S} ω_i Δ_i, with N clients that can take part. ω_i is the mean of the client's intervals that ended
    before this round, 1 where there is none; an interval ends with a round in which the client's message arrives, or with
    its `cutoff`-th round, so that one long absence does not weigh too much.

    Corrects: clients that come more often than others, where nobody knows how often; where it is known, take
    `horvitz_thompson(shares: known)`, which has no estimate in it.    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.    State: three numbers a client.    Needs: one block at a time, and cohorts that draw a client once.
    Where everybody always reports, or with cutoff 1: `mean_over_all`.

    Args:
      cutoff: K, rounds after which an interval counts as over; null: intervals are as long as they are.

    References:
      Wang, Ji 2024, A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging,
      arXiv:2306.03401, Algorithms 1 and 2 with p_n = 1/N; ω is computed when it is needed, not in every round.
    """
    return mean_over_all()._replace(before=weighted_by_absence(cutoff), linear=False)


def weighted_by_absence(cutoff: int | None) -> RowStage:
    """Δ_i ← ω_i Δ_i, with ω_i the mean of the client's `intervals` so far; its last round is `seen`."""

    def memory(params, key):
        del params, key
        return {"omega": jnp.ones(()), "intervals": jnp.int32(0), "seen": jnp.int32(0)}

    def apply(updates: Updates, context: Context) -> Updates:
        row, away = (
            updates.memory,
            context.round - updates.memory["seen"],
        )  # rounds, this one included
        cut = jnp.zeros_like(away) if cutoff is None else (away - 1) // cutoff
        last = away if cutoff is None else away - cut * cutoff
        omega = _mean(row["omega"], row["intervals"], cut, cut * (cutoff or 0))
        known = row["intervals"] + cut
        after = {
            "omega": _mean(omega, known, 1, last),
            "intervals": known + 1,
            "seen": 0 * away + context.round,
        }
        delta = jax.tree.map(lambda x: x * omega.astype(x.dtype), updates.delta)
        return updates._replace(delta=delta, memory=after)

    return RowStage(apply=apply, name="participation", memory=memory)


def _mean(mean, count, more, length):
    """A mean of `count` intervals, and `more` of them that are so long together; that of none is as it was."""
    total = (count + more).astype(mean.dtype)
    of_all = (mean * count.astype(mean.dtype) + length) / jnp.maximum(total, 1)
    return jnp.where(total > 0, of_all.astype(mean.dtype), mean)
