"""The three-sigma rule: updates whose distance to the geometric median is not unusual."""

from typing import Annotated

import jax.numpy as jnp
from annotated_types import Gt

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.geometric_median import weiszfeld
from fedsim.rules.selection import selection_report
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


@rule
def three_sigma(factor: Annotated[float, Gt(0)] = 3.0) -> Rule:
    """Plain mean of the updates whose distance to the geometric median is not unusual.

    s_i = ‖x_i − v‖₂ with v the geometric median;  agg = 1/|S| Σ_{i∈S} x_i,
    S = {i : s_i ≤ μ + λ σ}, μ and σ the mean and the standard deviation (m − 1) of the m scores.
    Sample counts and updates that are not finite are ignored.

    Resists: few large updates among many: no score exceeds μ + σ (m − 1)/√m, so of 10 clients none
    is ever 3 σ away, and large updates hide smaller ones.
    Cost: O(K·D) per iteration of the median.
    Needs: the whole stack.

    Args:
      factor: λ.

    References:
      Han et al. 2023, Kick Bad Guys Out! Conditionally Activated Anomaly Detection in Federated
      Learning, arXiv:2310.04055, section 4 (there with the scores of all rounds, around Krum's
      choice).

    >>> import fedsim
    >>> rows = [[0.0], [1.0], [2.0], [1.0], [9.0]]
    >>> fedsim.aggregate({"kind": "three_sigma", "factor": 1.0}, rows).tolist()
    [1.0]
    """

    def apply(updates: Updates, state: Tree, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        w = usable.astype(updates.samples.dtype)
        m = jnp.sum(w)
        centre = weiszfeld(updates.delta, w, 0.0, None)
        distances = jnp.where(usable, tree.norms(updates.delta, centre), 0)

        # In units of the largest distance, so that squares do not overflow.
        scores = distances / jnp.maximum(jnp.max(distances), jnp.finfo(distances.dtype).tiny)
        mean = tree.sum_weights(scores) / m
        squares = tree.sum_weights(jnp.where(usable, (scores - mean) ** 2, 0))
        bound = mean + factor * jnp.sqrt(squares / jnp.maximum(m - 1, 1))

        accepted = usable & (scores <= bound)
        aggregate = tree.weighted_mean(updates.delta, accepted.astype(w.dtype))
        return aggregate, state, selection_report(accepted, updates, context)

    return Rule(apply=apply)
