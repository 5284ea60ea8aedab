"""FLDetector: clients whose updates do not follow from their last ones are removed."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.gap_statistic import upper_cluster
from fedsim.rules.secant import Pairs, curvature, no_pairs, product, with_pair
from fedsim.rules.selection import selected
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


class Histories(NamedTuple):
    """What FLDetector's server remembers."""

    last: Tree  # [N, ...] every client's last update
    at: Tree  # [N, ...] the model that it was made at
    known: Bool[Array, " N"]  # who has sent one
    scores: Float[Array, "N W"]  # its last scores, the newest last
    scored: Int[Array, " N"]  # how many there were
    removed: Bool[Array, " N"]
    pairs: Pairs
    model: Tree  # at which the last aggregate was made
    aggregate: Tree
    rounds: Int[Array, ""]


@rule
def fldetector(window: Annotated[int, Ge(1)] = 10) -> Rule:
    """Plain mean of the clients that were never found to send what does not follow from their last updates.

    x̂_i = x_i' − B (w − w_i'), with x_i' the last update of client i and w_i' the model it was made at; B is the L-BFGS matrix
    of the last W pairs (s, y) of differences of models and of negative aggregates between successive rounds, σ I with σ =
    yᵀs/sᵀs of the newest at first. d_i = ‖x_i − x̂_i‖₂ over its mean in the round; the score of a client is the mean of its
    last W d_i. By the gap statistic of the scores of all clients that have W of them: if they are two clusters rather than
    one, those in the upper one of two are removed for the rest of the run.  agg = the mean over the others, zero if there
    is none. Sample counts are ignored, and so are updates that are not finite.

    Who takes part now and then is compared with the update of its last time, across all that the model moved since; under full
    participation w_i' is the model of the round before, as in the paper. Nobody is judged before having sent W + 1 updates.
    The paper begins anew without those whom it removed; here training goes on. It keeps pairs without positive curvature
    ⟨s, y⟩, which are left out here, and divides d by its sum.

    Resists: clients whose updates follow no function of the model, as long as they are not consistent with each other and
    with themselves; not before the window is full. Where clients differ much, honest ones may be removed.
    Cost: O(K·W·D + W²·D).    State: 2 N + 2 W + 2 models; it is kept with every commit.
    Needs: the whole stack, and updates made at the model of the round.

    Args:
      window: W, of scores and of pairs.

    References:
      Zhang, Cao, Jia, Gong 2022, FLDetector: Defending Federated Learning Against Model Poisoning Attacks via Detecting
      Malicious Clients, KDD, arXiv:2207.09209, Algorithms 1 and 2.

    >>> import fedsim
    >>> fedsim.aggregate("fldetector", [[1.0], [2.0], [6.0]]).tolist()
    [3.0]
    """

    def init(params: Tree, present: Array) -> Histories:
        N, dtype = present.shape[0], jnp.result_type(jnp.float32, *jax.tree.leaves(params))
        rows = lambda: jax.tree.map(lambda p: jnp.zeros((N, *p.shape), p.dtype), params)
        none, zero = jnp.zeros(N, bool), tree.zeros_like(params)
        scores, scored = jnp.zeros((N, window), dtype), jnp.zeros(N, jnp.int32)
        pairs = no_pairs(params, window)
        return Histories(rows(), rows(), none, scores, scored, none, pairs, zero, zero, jnp.int32(0))

    def apply(updates: Updates, state: Histories, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        state = _judged(state, updates.delta, usable, context)
        kept = usable & ~state.removed[context.ids]
        aggregate = tree.weighted_mean(updates.delta, kept.astype(updates.samples.dtype))
        state = tree.select(jnp.any(kept), _followed(state, aggregate, context.shared["params"]), state)
        return aggregate, state, selected(kept, updates, context)

    return Rule(apply=apply, init=init)


def _judged(state: Histories, delta: Tree, usable: Bool[Array, " K"], context: Context) -> Histories:
    """The histories with this round's updates and scores, and who is removed by them."""
    ids, model, N = context.ids, context.shared["params"], len(state.known)
    matrix = curvature(state.pairs)

    def distance(row):
        update, last, at = row
        expected = tree.subtract(last, product(matrix, tree.subtract(model, at)))
        return tree.norm(tree.subtract(update, expected))

    away = lax.map(distance, (delta, tree.take(state.last, ids), tree.take(state.at, ids)))
    compared = usable & state.known[ids] & ~state.removed[ids]
    away = jnp.where(compared, away, 0).astype(state.scores.dtype)
    mean = tree.sum_weights(away) / jnp.maximum(jnp.sum(compared), 1).astype(away.dtype)
    score = away / jnp.where(mean > 0, mean, 1)
    to = jnp.where(compared, ids, N)  # beyond the last client: not written
    pushed = jnp.concatenate([state.scores[ids, 1:], score[:, None]], axis=1)
    scores, scored = state.scores.at[to].set(pushed, mode="drop"), state.scored.at[to].add(1, mode="drop")
    full = (scored >= scores.shape[1]) & ~state.removed
    flagged = upper_cluster(jnp.mean(scores, axis=1), full)
    sent = jnp.where(usable, ids, N)
    at = jax.tree.map(lambda leaf, m: leaf.at[sent].set(m[None], mode="drop"), state.at, model)
    return state._replace(
        last=tree.put(state.last, sent, delta),
        at=at,
        known=state.known.at[sent].set(True, mode="drop"),
        scores=scores,
        scored=scored,
        removed=state.removed | flagged,
    )


def _followed(state: Histories, aggregate: Tree, model: Tree) -> Histories:
    """The histories with the pair of this round and the one before."""
    pairs = with_pair(state.pairs, tree.subtract(model, state.model), tree.subtract(state.aggregate, aggregate))
    pairs = tree.select(state.rounds > 0, pairs, state.pairs)
    return state._replace(pairs=pairs, model=model, aggregate=aggregate, rounds=state.rounds + 1)
