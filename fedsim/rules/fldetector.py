"""FLDetector: leaves out clients whose updates are inconsistent with their last ones."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.compose import rule
from fedsim.rules.gap_statistic import upper_cluster
from fedsim.rules.secant import Pairs, curvature, product, with_pair
from fedsim.rules.selection import selection_report
from fedsim.rules.sorting import middle
from fedsim.tree import Tree
from fedsim.types import Context, Rule, Updates


class Histories(NamedTuple):
    """State of FLDetector's server; checkpoints have these names."""

    last: Tree  # [N, ...] every client's last update
    at: Tree  # [N, ...] the model from which the client made it
    known: Bool[Array, " N"]  # whether the client has sent an update
    scores: Float[Array, "N W"]  # every client's last scores, the newest last
    scored: Int[Array, " N"]  # how many scores the client has had
    suspected: Bool[Array, " N"]  # in the upper cluster of this round
    pairs: Pairs
    model: Tree  # the model of the last aggregate
    aggregate: Tree
    rounds: Int[Array, ""]


@rule
def fldetector(window: Annotated[int, Ge(1)] = 10) -> Rule:
    """Plain mean of the updates of clients whose updates are consistent with their last ones.

    x̂_i = x_i' − B (w − w_i'), with x_i' the last update of client i and w_i' the model from which
    it was made. B is the L-BFGS matrix of the last W pairs (s, y) of differences of models and of
    negative aggregates between successive rounds, from σ I with σ = yᵀs/sᵀs of the newest.
    d_i = ‖x_i − x̂_i‖₂ over its median in the round; the score of a client is the mean of its last
    W d_i. Clients that have W of them are judged, once they are more than half of those that can
    take part: where the gap statistic of their scores finds two clusters rather than one, the
    clients in the upper cluster are suspected. agg = the mean over the others, zero if there is
    none. Sample counts and updates that are not finite are ignored.

    Under full participation w_i' is the model of the previous round, as in the paper. A client that
    takes part now and then is compared with its last update, across all that the model has moved
    since, and its scores persist meanwhile. d is divided by its median, because the paper's sum
    depends on how many malicious clients are in the round. The paper removes suspects once, and
    restarts; here a round leaves out those that are suspected in it. The paper uses pairs without
    positive curvature ⟨s, y⟩, which are left out here.

    Resists: fewer than half of the clients, if their updates are no function of the model; not
    before W + 1 rounds, and under partial participation, where predictions are worse, only updates
    that are far from them.
    Cost: O(K·W·D + W²·D), and O(N log N).
    State: 2 N + 2 W + 2 models, written with every commit.
    Needs: the whole stack, and updates made from the model of the round.

    Args:
      window: W, the number of scores and of pairs.

    References:
      Zhang, Cao, Jia, Gong 2022, FLDetector: Defending Federated Learning Against Model Poisoning
      Attacks via Detecting Malicious Clients, KDD, arXiv:2207.09209, Algorithms 1 and 2.

    >>> import fedsim
    >>> fedsim.aggregate("fldetector", [[1.0], [2.0], [6.0]]).tolist()
    [3.0]
    """

    def init(params: Tree, present: Array) -> Histories:
        N = present.shape[0]
        dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(params))
        rows = lambda count: jax.tree.map(lambda p: jnp.zeros((count, *p.shape), p.dtype), params)
        nobody = jnp.zeros(N, bool)
        zero = tree.zeros_like(params)
        return Histories(
            last=rows(N),
            at=rows(N),
            known=nobody,
            scores=jnp.zeros((N, window), dtype),
            scored=jnp.zeros(N, jnp.int32),
            suspected=nobody,
            pairs=Pairs(rows(window), rows(window)),
            model=zero,
            aggregate=zero,
            rounds=jnp.int32(0),
        )

    def apply(updates: Updates, state: Histories, context: Context):
        usable = updates.arrived & tree.finite_rows(updates.delta, updates.samples.shape[0])
        state = _with_scores(state, updates.delta, usable, context)
        accepted = usable & ~state.suspected[context.ids]
        aggregate = tree.weighted_mean(updates.delta, accepted.astype(updates.samples.dtype))

        extended = _with_aggregate(state, aggregate, context.shared["params"])
        state = tree.select(jnp.any(accepted), extended, state)
        return aggregate, state, selection_report(accepted, updates, context)

    return Rule(apply=apply, init=init)


def _with_scores(
    state: Histories, delta: Tree, usable: Bool[Array, " K"], context: Context
) -> Histories:
    """The histories with this round's updates, scores and suspects."""
    ids = context.ids
    model = context.shared["params"]
    N = len(state.known)

    compared = usable & state.known[ids]
    score = _scores(state, delta, compared, context)

    # Index N is beyond the last client, and nothing is written there.
    rows = jnp.where(compared, ids, N)
    window = jnp.concatenate([state.scores[ids, 1:], score[:, None]], axis=1)
    scores = state.scores.at[rows].set(window, mode="drop")
    counts = state.scored.at[rows].add(1, mode="drop")

    full = counts >= scores.shape[1]
    judged = full & (2 * jnp.sum(full) > context.N)

    senders = jnp.where(usable, ids, N)
    write = lambda leaf, value: leaf.at[senders].set(value[None], mode="drop")
    return state._replace(
        last=tree.put(state.last, senders, delta),
        at=jax.tree.map(write, state.at, model),
        known=state.known.at[senders].set(True, mode="drop"),
        scores=scores,
        scored=counts,
        suspected=upper_cluster(jnp.mean(scores, axis=1), judged),
    )


def _scores(
    state: Histories, delta: Tree, compared: Bool[Array, " K"], context: Context
) -> Float[Array, " K"]:
    """d_i of the rows that are compared: distances to predicted updates, over their median."""
    matrix = curvature(state.pairs)
    model = context.shared["params"]

    def distance(row):
        update, last_update, last_model = row
        change = product(matrix, tree.subtract(model, last_model))
        expected = tree.subtract(last_update, change)
        return tree.norm(tree.subtract(update, expected))

    last_updates = tree.take(state.last, context.ids)
    last_models = tree.take(state.at, context.ids)
    distances = lax.map(distance, (delta, last_updates, last_models))
    distances = jnp.where(compared, distances, jnp.inf).astype(state.scores.dtype)
    median = middle(jnp.sort(distances), jnp.sum(compared))
    return distances / jnp.where(median > 0, median, 1)


def _with_aggregate(state: Histories, aggregate: Tree, model: Tree) -> Histories:
    """The histories with this round's aggregate, and its pair with the previous round."""
    s = tree.subtract(model, state.model)
    y = tree.subtract(state.aggregate, aggregate)
    pairs = tree.select(state.rounds > 0, with_pair(state.pairs, s, y), state.pairs)
    return state._replace(pairs=pairs, model=model, aggregate=aggregate, rounds=state.rounds + 1)
