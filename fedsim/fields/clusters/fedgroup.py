"""FedGroup and FlexCFL: groups of clients whose first updates point the same way."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge
from jaxtyping import Array, Bool, Float, Int

from fedsim import tree
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Bank, Client, Grouping, Shared, Task, Updates, Work

Clusters = Annotated[int, Ge(1)]

ITERATIONS = 20  # of k-means, as in the authors' code


class Groups(NamedTuple):
    """Which group every client is in, and which way the first updates of a group point."""

    cluster: Int[Array, " N"]  # of every client; k: of none
    clusters: Int[Array, ""]  # models in use
    formed: Bool[Array, ""]  # whether there are groups
    direction: Tree  # [k, ...] the mean first update of those that a group was formed of
    labels: Float[Array, "N C"]  # samples by class of every client when it was grouped


@client
def fedgroup(clusters: Clusters = 3) -> Client:
    """Groups of clients by the directions of their first updates, which stay as they are.

    A client's first update is from the start model x_0. In the first round in which at least k of
    them arrive, the server divides their clients: with V the k left singular vectors of
    [Δ_1 ... Δ_m] of largest singular value, k-means on (cos(Δ_i, V_1), ..., cos(Δ_i, V_k)), from
    centres far apart. Each group's model is x_0 plus the mean of its updates. From then on a
    client trains the model of its group; one that is new trains x_0 in its first round, which moves
    no model, and joins the group of largest cos(Δ_i, Δ̄_g), with Δ̄_g the mean of the updates that
    the group was formed of. (In the paper both happen in one round, by a training before it.) A
    client that is in no group yet has x_0, which is model number k.

    State: x_0 and a model of every group, and Δ̄_g, on the server.
    Sends: one model.    Rule: `mean`.
    Costs O((K + k)²·D) a round. With `clusters: 1` and `cohort: all`: `sgd`.

    Args:
      clusters: k, the number of groups.

    References:
      Duan et al. 2021, FedGroup: Efficient Clustered Federated Learning via Decomposed Data-Driven
      Measure, arXiv:2010.06870, Algorithms 1 to 3 (k-means on decomposed cosines, EDC).
    """
    return _in_groups("fedgroup", clusters, shift=None, eta_g=0.0)


@client
def flexcfl(
    clusters: Clusters = 3,
    shift: Annotated[float, Ge(0)] = 0.2,
    eta_g: Annotated[float, Ge(0)] = 0.0,
) -> Client:
    """`fedgroup` whose clients move to another group when their data change.

    A client whose samples by class differ from those when it was grouped by
    Σ_c |n_ic − n'_ic| > s n_i is treated as a new one: it trains x_0, and joins the group of
    largest cos(Δ_i, Δ̄_g). (The authors' code sorts the counts before it compares them, by which an
    exchange of two classes changes nothing.) After each round, every group that has moved goes to
    (θ_g + Σ_{l≠g} η_g θ_l/‖θ_l‖) / (1 + Σ_{l≠g} η_g/‖θ_l‖), over the others that have moved.

    State: x_0 and a model of every group, Δ̄_g, and each client's samples by class, on the server.
    Sends: one model.    Rule: `mean`.
    Needs: classes. Costs O((K + k)²·D) a round. With `eta_g: 0` and data that stay: `fedgroup`.

    Args:
      clusters: k, the number of groups.
      shift: s, the share of a client's samples by which its classes may change.
      eta_g: η_g, how far a group's model goes towards those of the others.

    References:
      Duan et al. 2021, Flexible Clustered Federated Learning for Client-Level Data Distribution
      Shift, arXiv:2108.09749, Algorithms 1 and 2, with the authors' code for both formulas.
    """
    return _in_groups("flexcfl", clusters, shift=shift, eta_g=eta_g)


def _in_groups(name: str, k: int, shift: float | None, eta_g: float) -> Client:
    """Return plain local training in k groups.

    Args:
      shift: how far a client's classes may change before it is grouped anew; None: as they like.
      eta_g: how far a group's model goes towards those of the others.
    """
    start_model = k

    def init(task: Task, params: Tree, present: Bool[Array, " N"], models: int) -> Groups:
        del models
        N = len(present)
        classes = 0 if shift is None else task.classes
        dtype = jnp.result_type(*jax.tree.leaves(params))
        no_directions = lambda leaf: jnp.zeros((k, *leaf.shape), leaf.dtype)
        return Groups(
            cluster=jnp.full(N, start_model, jnp.int32),
            clusters=jnp.ones((), jnp.int32),
            formed=jnp.zeros((), bool),
            direction=jax.tree.map(no_directions, params),
            labels=jnp.zeros((N, classes), dtype),
        )

    def choose(groups: Groups, work: Work) -> Int[Array, " K"]:
        cluster = groups.cluster[work.id]
        if shift is None:
            return cluster
        change = jnp.abs(work.labels - groups.labels[work.id]).sum(axis=1)
        return jnp.where(change > shift * work.samples, start_model, cluster)

    def regroup(updates: Updates, work: Work, round, groups: Groups):
        del round
        started = choose(groups, work)
        is_new = updates.arrived & (started == start_model)
        forms = ~groups.formed & (jnp.sum(is_new) >= k)

        groups, joined = jax.lax.cond(forms, _form, _join, groups, updates.delta, is_new)

        # Whoever is new gets a group, and what its data are like now is remembered.
        nobody = len(groups.cluster)  # writes nothing
        ids = jnp.where(is_new, work.id, nobody)
        groups = groups._replace(
            cluster=groups.cluster.at[ids].set(joined, mode="drop"),
            labels=groups.labels.at[ids].set(work.labels[:, : groups.labels.shape[1]], mode="drop"),
        )

        # First updates move a model only where they form it.
        counted = jnp.where(forms, groups.cluster[work.id], started)
        info = {f"{name}/joined": jnp.sum(is_new & groups.formed, dtype=jnp.int32)}
        return groups, jnp.arange(k + 1, dtype=jnp.int32), counted, info

    def mix(before: Shared, after: Shared, moved: Bool[Array, " k+1"]) -> Shared:
        moved = moved & (jnp.arange(k + 1) != start_model)
        after = tree.select(moved, after, before)
        if eta_g == 0:
            return after
        return {**after, "params": towards_others(after["params"], moved, eta_g)}

    grouping = Grouping(init=init, apply=regroup, choose=choose, least=k)
    bank = Bank(models=k + 1, grouping=grouping, mix=mix)
    needs = frozenset() if shift is None else frozenset({"labels"})
    return sgd()._replace(server=bank, needs=needs)


def _form(
    groups: Groups, delta: Tree, is_new: Bool[Array, " K"]
) -> tuple[Groups, Int[Array, " K"]]:
    """Return the groups that new clients form by their updates, and the group of each."""
    k = tree.rows(groups.direction)
    group = parts(delta, is_new, k)

    def mean_of(number: Int[Array, ""]) -> Tree:
        member = is_new & (group == number)
        return tree.weighted_mean(delta, member.astype(groups.labels.dtype))

    groups = groups._replace(
        clusters=jnp.asarray(k, jnp.int32),
        formed=jnp.ones((), bool),
        direction=jax.lax.map(mean_of, jnp.arange(k)),
    )
    return groups, group


def _join(
    groups: Groups, delta: Tree, is_new: Bool[Array, " K"]
) -> tuple[Groups, Int[Array, " K"]]:
    """Return the groups as they are, and the one that each new client joins, if there are any."""
    nearest = nearest_direction(delta, is_new, groups.direction)
    return groups, jnp.where(groups.formed, nearest, tree.rows(groups.direction))


def parts(delta: Tree, present: Bool[Array, " K"], k: int) -> Int[Array, " K"]:
    """Divide updates into k parts by the cosines with their singular vectors.

    Args:
      delta: the updates `[K, ...]`.
      k: how many parts; at most as many as updates that count.
    """
    return k_means(decomposed_cosines(delta, present, k), present, k)


def decomposed_cosines(delta: Tree, present: Bool[Array, " K"], k: int) -> Float[Array, "K k"]:
    """Return the cosines of updates with the k left singular vectors of largest singular value."""
    lengths = jnp.where(present, tree.norms(delta, tree.zero_row(delta)), 0)
    gram = tree.cosines(delta, present) * lengths[:, None] * lengths[None, :]

    # With Δ = V S Uᵀ: Δ Δᵀ = V S² Vᵀ, and the products with the singular vectors are Δ U = V S.
    squares, vectors = jnp.linalg.eigh(gram)  # rising
    products = vectors[:, ::-1] * jnp.sqrt(jnp.maximum(squares[::-1], 0))
    products = jnp.pad(products, ((0, 0), (0, max(k - len(present), 0))))[:, :k]
    return tree.over(products.T, lengths).T


def k_means(points: Float[Array, "K d"], present: Bool[Array, " K"], k: int) -> Int[Array, " K"]:
    """Divide the points that count into k parts, from centres far apart.

    The first centre is the first point; each of the next is the point that is farthest from the
    centres before it.
    """

    def distances(centre):
        return jnp.where(present, jnp.sum((points - centre) ** 2, axis=1), -1)

    def add_centre(number, state):
        centres, nearest = state
        centres = centres.at[number].set(points[jnp.argmax(nearest)])
        return centres, jnp.minimum(nearest, distances(centres[number]))

    first = points[jnp.argmax(present)]
    centres = jnp.zeros((k, points.shape[1]), points.dtype).at[0].set(first)
    centres, _ = jax.lax.fori_loop(1, k, add_centre, (centres, distances(first)))

    def nearest_centre(centres):
        square = jnp.sum((points[:, None] - centres[None]) ** 2, axis=2)
        return jnp.argmin(square, axis=1).astype(jnp.int32)

    def move_centres(_, centres):
        member = (nearest_centre(centres)[:, None] == jnp.arange(k)) & present[:, None]
        weight = member.astype(points.dtype)
        count = weight.sum(axis=0)[:, None]
        means = weight.T @ points / jnp.maximum(count, 1)
        return jnp.where(count > 0, means, centres)

    return nearest_centre(jax.lax.fori_loop(0, ITERATIONS, move_centres, centres))


def nearest_direction(delta: Tree, present: Bool[Array, " K"], direction: Tree) -> Int[Array, " K"]:
    """Return the group whose direction an update is most like; the first of equal ones.

    Args:
      delta: the updates `[K, ...]`.
      direction: of every group `[k, ...]`; zeros: there is none.
    """
    K = len(present)
    is_direction = tree.norms(direction, tree.zero_row(direction)) > 0
    both = tree.concatenate([delta, direction])
    cosines = tree.cosines(both, jnp.concatenate([present, is_direction]))[:K, K:]
    return jnp.argmax(jnp.where(is_direction, cosines, -jnp.inf), axis=1).astype(jnp.int32)


def towards_others(params: Tree, moved: Bool[Array, " k"], eta_g: float) -> Tree:
    """Return the models of groups after each has gone towards the others that moved.

    Args:
      params: of every model `[k, ...]`.
      moved: models that have moved in the round; the others stay.
      eta_g: the weight of another model of length 1.
    """
    lengths = tree.norms(params, tree.zero_row(params))
    pull = jnp.where(moved & (lengths > 0), eta_g / jnp.where(lengths > 0, lengths, 1), 0)

    def mixed(number):
        weights = pull.at[number].set(1)
        return tree.weighted_mean(params, weights)

    return tree.select(moved, jax.lax.map(mixed, jnp.arange(len(moved))), params)
