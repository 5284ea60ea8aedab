"""The weighted tree sum: federated averaging's rule."""

from typing import Literal

import jax.numpy as jnp

from fedsim import tree
from fedsim.compose import folding, rule
from fedsim.types import Fold, Rule, Updates, by_samples, reported


@rule
def mean(
    weights: Literal["samples", "uniform", "steps", "effort"] = "samples",
    denominator: Literal["actual", "expected"] = "actual",
) -> Rule:
    """Weighted mean of the updates that arrived.

    Δ̄ = Σ_{i∈S} p_i Δ_i  with  p_i = w_i / Σ_{j∈S} w_j  over the clients S of the round that
    reported; w_i is the sample count n_i, 1, the number of local steps, or the effort that the
    client method reports, times how often the client was drawn. With `denominator: expected` the
    sum is divided by the average sum of weights of a round, E Σ w_j, whoever came: then no client's
    share depends on the others, and a round in which nobody came has the mean 0, is not skipped,
    and goes through the steps and optimisers behind the rule.

    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.
    Needs: one block at a time.

    Args:
      weights: `samples` (FedAvg), `uniform` (SCAFFOLD, FedOpt's Algorithm 2, robust rules), `steps`
        or `effort` (the Fisher information of FedAS).
      denominator: `actual`, the weights of the round, or `expected`, for cohorts that know how
        often they draw a client; not with `weights: steps` or `effort`.

    References:
      McMahan et al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized
      Data, arXiv:1602.05629, Algorithm 1 with the erratum of v4 (weights over the clients of the
      round). `expected`: McMahan, Ramage, Talwar, Zhang 2018, Learning Differentially Private
      Recurrent Language Models, arXiv:1710.06963, estimator f̃_f.
    """
    if denominator == "expected" and weights in ("steps", "effort"):
        what = "number of steps" if weights == "steps" else "effort"
        remedy = "use denominator: actual, or other weights"
        raise ValueError(f"the average {what} of a round is unknown; {remedy}")

    def by_steps(updates: Updates):
        return reported(updates) * updates.steps

    def by_effort(updates: Updates):
        return reported(updates) * updates.effort

    weigh = {
        "samples": by_samples,
        "uniform": reported,
        "steps": by_steps,
        "effort": by_effort,
    }[weights]

    def zero(updates):
        return tree.zero_row((updates.delta, updates.samples))

    def add(total, updates, context):
        del context
        w = weigh(updates)
        return tree.fold(total, (updates.delta, jnp.ones_like(w)), w)

    def finish(total, state, context):
        weight = total[1]
        if denominator == "expected":
            weight = context.expected_samples if weights == "samples" else context.expected
        return tree.divide(total[0], weight), state, {}

    weighted = folding(Fold(zero=zero, add=add, finish=finish, linear=True), weigh)
    if denominator == "expected":
        return weighted._replace(least=0, needs=frozenset({"expected"}))
    return weighted
