"""CFL: the server splits its clients in two where their updates point apart."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Bank, Client, Grouping, Task, Updates, Work, by_samples


class Splits(NamedTuple):
    """Which cluster every client is in, and how the clusters came about."""

    cluster: Int[Array, " N"]  # of every client
    clusters: Int[Array, ""]  # how many there are
    parent: Int[Array, " k"]  # from which each was split off; −1: from none
    split_round: Int[Array, " k"]  # when; 0: never
    present: Bool[Array, " N"]  # clients that can take part


@client
def cfl(
    eps1: Annotated[float, Ge(0)] = 0.4,
    eps2: Annotated[float, Ge(0)] = 1.6,
    clusters: Annotated[int, Ge(1)] = 8,
) -> Client:
    """The server splits a cluster in two where the mean update is short and single ones are long.

    A cluster c splits in a round in which ‖Σ_{i∈c} (n_i/n_c) Δ_i‖ < ε₁ and max_{i∈c} ‖Δ_i‖ > ε₂,
    into the two parts whose most similar pair of clients, one from each, is least similar by
    cos(Δ_i, Δ_j). Both go on from its model, each with the mean of its own clients in that round.
    The part with the first client keeps the number of the cluster. A cluster of which an update is
    missing does not split. All clients begin in one cluster.

    State: a model of every cluster, and the tree of splits, on the server.
    Sends: one model.    Rule: `mean`. Needs `cohort: all`.
    Costs O(N²·D) a round. With ε₁ = 0: `sgd`.

    Args:
      eps1: ε₁, below which the norm of the mean update must be.
      eps2: ε₂, above which the norm of some client's update must be.
      clusters: how many there may be at most; beyond it, nothing splits. No more than the clients
        with samples: a cluster of one never splits.

    References:
      Sattler, Müller, Samek 2020, Clustered Federated Learning, arXiv:1910.01991, Algorithms 1
      (the optimal bipartition) and 3.
    """

    def init(task: Task, params: Tree, present: Bool[Array, " N"], k: int) -> Splits:
        del task, params
        return Splits(
            cluster=jnp.zeros(len(present), jnp.int32),
            clusters=jnp.ones((), jnp.int32),
            parent=jnp.full(k, -1, jnp.int32),
            split_round=jnp.zeros(k, jnp.int32),
            present=jnp.asarray(present),
        )

    def regroup(updates: Updates, work: Work, round, state: Splits):
        ids = work.id
        similarity = tree.cosines(updates.delta, updates.arrived)
        lengths = tree.norms(updates.delta, tree.zero_row(updates.delta))

        def look_at(number: Int[Array, ""]):
            """Return whether a cluster is to split, the rows that leave it, and its two norms."""
            member = updates.arrived & (state.cluster[ids] == number)
            mean = tree.weighted_mean(updates.delta, jnp.where(member, by_samples(updates), 0))
            mean_norm = tree.norm(mean)
            max_norm = jnp.max(jnp.where(member, lengths, 0), initial=0)

            members = jnp.sum(state.present & (state.cluster == number))
            complete = (jnp.sum(member) == members) & (members > 1)
            splits = complete & (mean_norm < eps1) & (max_norm > eps2)
            return splits, second_part(similarity, member), mean_norm, max_norm

        numbers = jnp.arange(clusters, dtype=jnp.int32)
        splits, leaves, mean_norms, max_norms = jax.vmap(look_at)(numbers)

        # New clusters are numbered in the order of those that they come from.
        new = state.clusters + jnp.cumsum(splits, dtype=jnp.int32) - 1  # [k]
        splits &= new < clusters
        beyond = jnp.full_like(new, clusters)
        target = jnp.where(splits, new, beyond)  # writes nothing where a cluster does not split

        # Clients that leave get the new number.
        leaving = leaves & splits[:, None]  # [k, K]
        moved_to = jnp.max(jnp.where(leaving, new[:, None], -1), axis=0)  # [K]
        nobody = len(state.cluster)  # writes nothing
        movers = jnp.where(moved_to >= 0, ids, nobody)
        next_cluster = state.cluster.at[movers].set(moved_to, mode="drop")

        state = state._replace(
            cluster=next_cluster,
            clusters=state.clusters + jnp.sum(splits, dtype=jnp.int32),
            parent=state.parent.at[target].set(numbers, mode="drop"),
            split_round=state.split_round.at[target].set(round, mode="drop"),
        )
        parents = numbers.at[target].set(numbers, mode="drop")
        used = numbers < state.clusters
        info = {
            "cfl/clusters": state.clusters.astype(mean_norms.dtype),
            "cfl/mean_norm": jnp.min(jnp.where(used, mean_norms, jnp.inf)),
            "cfl/max_norm": jnp.max(max_norms),
        }
        return state, parents, state.cluster[ids], info

    grouping = Grouping(init=init, apply=regroup, least=None)
    return sgd()._replace(server=Bank(models=clusters, grouping=grouping))


def second_part(similarity: Float[Array, "K K"], member: Bool[Array, " K"]) -> Bool[Array, " K"]:
    """Return one part of the bipartition whose most similar pair across is least similar.

    The other part has the first member. The members are collected from there on, always the one
    that is most similar to one of those collected (Prim's algorithm): the cut is before the member
    that was the least similar when it came, because all of the first part came earlier.
    """
    K = len(member)
    first = jnp.argmax(member)

    def collect(position, state):
        collected, nearest, order, edge = state
        left = member & ~collected
        next_row = jnp.argmax(jnp.where(left, nearest, -jnp.inf))
        is_row = jnp.any(left)  # else all members are collected
        edge = edge.at[position].set(jnp.where(is_row, nearest[next_row], jnp.inf))
        order = order.at[next_row].set(jnp.where(is_row, position, order[next_row]))
        nearest = jnp.where(is_row, jnp.maximum(nearest, similarity[next_row]), nearest)
        return collected.at[next_row].set(collected[next_row] | is_row), nearest, order, edge

    collected = jnp.zeros(K, bool).at[first].set(True)
    order = jnp.zeros(K, jnp.int32)
    edge = jnp.full(K, jnp.inf, similarity.dtype)
    start = (collected, similarity[first], order, edge)
    _, _, order, edge = jax.lax.fori_loop(1, K, collect, start)
    return member & (order >= jnp.argmin(edge))
