"""FoolsGold: clients whose histories point the same way count less."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Gt
from jaxtyping import Array, Bool, Float

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.cosines import cosines
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Rule, Updates


class Histories(NamedTuple):
    """What FoolsGold's server remembers."""

    H: Tree  # [N, ...] the sum of every client's updates


@rule
def foolsgold(confidence: Annotated[float, Gt(0)] = 1.0) -> Rule:
    """Sum of the updates, times a trust that clients lose whose histories point the same way.

    H_i ← H_i + x_i;  s_ij = cos(H_i, H_j) over the clients that reported, and s_ii = 0;  v_i = max_j s_ij, so v_i ≥ 0;
    s_ij ← s_ij v_i/v_j where v_j > v_i (pardoning);  α_i = 1 − max_j s_ij, over max_j α_j;
    α_i ← κ (ln(α_i/(1−α_i)) + ½), cut to [0, 1];  agg = Σ_i α_i x_i.

    A client whose history points away from all others has v_i = 0, and is trusted wholly. Where all histories are the same
    nobody is trusted, and agg = 0. Not divided by Σ α_i: set the server's step with `{kind: sgd, lr: ...}`. Sample counts
    are ignored.

    Resists: any number of clients that send nearly the same (sybils), if the honest ones differ; not one client alone, and
    not large updates.    Cost: O(K²·D).    State: H, N models; it is kept with every commit.    Needs: the whole stack.

    Args:
      confidence: κ, how steep the logit is.

    References:
      Fung, Yoon, Beschastnikh 2020, The Limitations of Federated Learning in Sybil Settings, arXiv:1808.04866, Algorithm 1
      (there of the indicative features alone); the authors' code, github.com/DistributedML/FoolsGold, deep-fg/fg/foolsgold.py
      (0.99 there stands for α_i = 1 before the logit, which comes to the same for κ ≥ 0.2).

    >>> import fedsim
    >>> fedsim.aggregate("foolsgold", [[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]]).tolist()  # the first two send nearly the same
    [-1.0, 0.0]
    >>> fedsim.aggregate("foolsgold", [[1.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 5.0]]).round(3).tolist()
    [1.0, 1.0]
    """

    def init(params, present):
        return Histories(
            jax.tree.map(lambda p: jnp.zeros((present.shape[0], *p.shape), p.dtype), params)
        )

    def apply(updates: Updates, state, context):
        present, N = updates.arrived, tree.rows(state.H)
        histories = jax.tree.map(jnp.add, tree.take(state.H, context.ids), updates.delta)
        ids = jnp.where(present, context.ids, N)  # beyond the last client: not written
        trust = trusts(histories, present, confidence)
        info = selected(trust > 0, updates, context)
        step = tree.weighted_sum(updates.delta, trust.astype(updates.samples.dtype))
        return step, Histories(tree.put(state.H, ids, histories)), info

    return Rule(apply=apply, init=init)


def trusts(histories: Tree, present: Bool[Array, " K"], confidence: float) -> Float[Array, " K"]:
    """α of every row of a stack; 0 of absent ones."""
    itself = jnp.eye(len(present), dtype=bool)
    similar = jnp.where(
        itself, 0, cosines(histories, present)
    )  # 0 as well beside rows that are absent

    most = jnp.max(similar, axis=1)
    pardoned = most[None, :] > most[:, None]
    ratio = most[:, None] / jnp.where(most > 0, most, 1)[None, :]
    similar = jnp.where(pardoned, similar * ratio, similar)

    alpha = jnp.where(present, 1 - jnp.max(similar, axis=1), 0)
    best = jnp.max(alpha)
    alpha = alpha / jnp.where(best > 0, best, 1)
    logit = jnp.log(alpha / (1 - alpha)) + 0.5  # −∞ of 0, ∞ of 1
    return jnp.clip(confidence * logit, 0, 1)
