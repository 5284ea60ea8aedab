"""FLDetector: clients whose updates do not follow from their last ones are left out."""

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
from fedsim.rules.sorting import middle
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


class Histories(NamedTuple):
    """What FLDetector's server remembers."""

    last: Tree  # [N, ...] every client's last update
    at: Tree  # [N, ...] the model that it was made at
    known: Bool[Array, " N"]  # who has sent one
    scores: Float[Array, "N W"]  # its last scores, the newest last
    scored: Int[Array, " N"]  # how many there were
    suspected: Bool[Array, " N"]  # in the upper cluster of this round
    pairs: Pairs
    model: Tree  # at which the last aggregate was made
    aggregate: Tree
    rounds: Int[Array, ""]


@rule
def fldetector(window: Annotated[int, Ge(1)] = 10) -> Rule:
    """Plain mean of the updates of clients that are not suspected of sending what does not follow from their last updates.

    x̂_i = x_i' − B (w − w_i'), with x_i' the last update of client i and w_i' the model it was made at; B is the L-BFGS matrix
    of the last W pairs (s, y) of differences of models and of negative aggregates between successive rounds, from σ I with
    σ = yᵀs/sᵀs of the newest. d_i = ‖x_i − x̂_i‖₂ over its median in the round; the score of a client is the mean of its last W
    d_i. Clients that have W of them are judged, once they are more than half of those that can take part: where the gap
    statistic of their scores says that they are two clusters rather than one, those in the upper one of two are suspected.
    agg = the mean over the others, zero if there is none. Sample counts are ignored, and so are updates that are not finite.

    Under full participation w_i' is the model of the round before, as in the paper. Who takes part now and then is compared
    with its last time, across all that the model moved since, and keeps its scores meanwhile; d is divided by its median, as
    the paper's sum depends on how many malicious clients are in the round. The paper removes who is suspected once, and begins
    anew; here a round leaves out those that are suspected in it. It keeps pairs without positive curvature ⟨s, y⟩, which are
    left out here.

    Resists: fewer than half of the clients, if their updates follow no function of the model; not before W + 1 rounds, and
    under partial participation, where predictions are worse, only what is far from them.    Cost: O(K·W·D + W²·D), and
    O(N log N).    State: 2 N + 2 W + 2 models; it is kept with every commit.    Needs: the whole stack, and updates made at the
    model of the round.

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
        return Histories(
            rows(), rows(), none, scores, scored, none, pairs, zero, zero, jnp.int32(0)
        )

    def apply(updates: Updates, state: Histories, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        state = _judged(state, updates.delta, usable, context)
        kept = usable & ~state.suspected[context.ids]
        aggregate = tree.weighted_mean(updates.delta, kept.astype(updates.samples.dtype))
        state = tree.select(
            jnp.any(kept), _followed(state, aggregate, context.shared["params"]), state
        )
        return aggregate, state, selected(kept, updates, context)

    return Rule(apply=apply, init=init)


def _judged(
    state: Histories, delta: Tree, usable: Bool[Array, " K"], context: Context
) -> Histories:
    """The histories with this round's updates and scores, and who is suspected by them."""
    ids, model, N = context.ids, context.shared["params"], len(state.known)
    matrix = curvature(state.pairs)

    def distance(row):
        update, last, at = row
        expected = tree.subtract(last, product(matrix, tree.subtract(model, at)))
        return tree.norm(tree.subtract(update, expected))

    away = lax.map(distance, (delta, tree.take(state.last, ids), tree.take(state.at, ids)))
    compared = usable & state.known[ids]
    away, m = jnp.where(compared, away, jnp.inf).astype(state.scores.dtype), jnp.sum(compared)
    ordered = jnp.sort(away)
    median = middle(ordered, m)
    score = away / jnp.where(median > 0, median, 1)
    to = jnp.where(compared, ids, N)  # beyond the last client: not written
    pushed = jnp.concatenate([state.scores[ids, 1:], score[:, None]], axis=1)
    scores, scored = (
        state.scores.at[to].set(pushed, mode="drop"),
        state.scored.at[to].add(1, mode="drop"),
    )
    full = scored >= scores.shape[1]
    judged = full & (2 * jnp.sum(full) > context.N)
    sent = jnp.where(usable, ids, N)
    at = jax.tree.map(lambda leaf, m: leaf.at[sent].set(m[None], mode="drop"), state.at, model)
    return state._replace(
        last=tree.put(state.last, sent, delta),
        at=at,
        known=state.known.at[sent].set(True, mode="drop"),
        scores=scores,
        scored=scored,
        suspected=upper_cluster(jnp.mean(scores, axis=1), judged),
    )


def _followed(state: Histories, aggregate: Tree, model: Tree) -> Histories:
    """The histories with the pair of this round and the one before."""
    pairs = with_pair(
        state.pairs, tree.subtract(model, state.model), tree.subtract(state.aggregate, aggregate)
    )
    pairs = tree.select(state.rounds > 0, pairs, state.pairs)
    return state._replace(pairs=pairs, model=model, aggregate=aggregate, rounds=state.rounds + 1)
