"""FoolsGold: clients whose histories point the same way count less."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Gt
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.selection import selection_report
from fedsim.tree import Tree
from fedsim.types import Rule, Updates


class Histories(NamedTuple):
    """State of FoolsGold's server."""

    H: Tree  # [N, ...] the sum of every client's updates


@rule
def foolsgold(confidence: Annotated[float, Gt(0)] = 1.0) -> Rule:
    """Sum of the updates, weighted by a trust that clients with similar histories lose.

    H_i ← H_i + x_i;  s_ij = cos(H_i, H_j) over the clients that reported, and s_ii = 0;
    v_i = max_j s_ij, so v_i ≥ 0;  s_ij ← s_ij v_i/v_j where v_j > v_i (pardoning);
    α_i = 1 − max_j s_ij, over max_j α_j;  α_i ← κ (ln(α_i/(1−α_i)) + ½), cut to [0, 1];
    agg = Σ_i α_i x_i.

    A client whose history points away from all others has v_i = 0, and full trust. Where all
    histories are the same nobody is trusted, and agg = 0. agg is not divided by Σ α_i: set the
    server's step with `{kind: sgd, lr: ...}`. Sample counts are ignored.

    Resists: any number of clients that send nearly the same (sybils), if the honest ones differ;
    neither a single client nor large updates.
    Cost: O(K²·D).
    State: H, N models, written with every commit.
    Needs: the whole stack.

    Args:
      confidence: κ, how steep the logit is.

    References:
      Fung, Yoon, Beschastnikh 2020, The Limitations of Federated Learning in Sybil Settings,
      arXiv:1808.04866, Algorithm 1 (there for the indicative features alone); the authors' code,
      github.com/DistributedML/FoolsGold, deep-fg/fg/foolsgold.py (it replaces α_i = 1 by 0.99
      before the logit, which gives the same result for κ ≥ 0.2).

    >>> import fedsim
    >>> rows = [[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]]  # the first two send nearly the same
    >>> fedsim.aggregate("foolsgold", rows).tolist()
    [-1.0, 0.0]
    >>> rows = [[1.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 5.0]]
    >>> fedsim.aggregate("foolsgold", rows).round(3).tolist()
    [1.0, 1.0]
    """

    def init(params, present):
        zeros = lambda p: jnp.zeros((present.shape[0], *p.shape), p.dtype)
        return Histories(jax.tree.map(zeros, params))

    def apply(updates: Updates, state, context):
        present = updates.arrived
        N = tree.rows(state.H)
        histories = jax.tree.map(jnp.add, tree.take(state.H, context.ids), updates.delta)
        ids = jnp.where(present, context.ids, N)  # N is beyond the last client, and not written
        trust = trusts(histories, present, confidence)
        info = selection_report(trust > 0, updates, context)
        step = tree.weighted_sum(updates.delta, trust.astype(updates.samples.dtype))
        return step, Histories(tree.put(state.H, ids, histories)), info

    return Rule(apply=apply, init=init)


def trusts(histories: Tree, present: Bool[Array, " K"], confidence: float) -> Float[Array, " K"]:
    """α of every row of a stack; 0 for absent rows."""
    itself = jnp.eye(len(present), dtype=bool)
    similarity = jnp.where(itself, 0, tree.cosines(histories, present))  # 0 for absent rows as well

    most = jnp.max(similarity, axis=1)
    pardoned = most[None, :] > most[:, None]
    ratio = most[:, None] / jnp.where(most > 0, most, 1)[None, :]
    similarity = jnp.where(pardoned, similarity * ratio, similarity)

    alpha = jnp.where(present, 1 - jnp.max(similarity, axis=1), 0)
    best = jnp.max(alpha)
    alpha = alpha / jnp.where(best > 0, best, 1)
    logit = jnp.log(alpha / (1 - alpha)) + 0.5  # −∞ for 0, ∞ for 1
    return jnp.clip(confidence * logit, 0, 1)
