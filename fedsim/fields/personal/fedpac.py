"""FedPAC: features that agree on the classes, and heads mixed from those of similar clients."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le
from jaxtyping import Array, Bool, Float, Int, Key

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.fields.personal.fedper import shared_mask, unshared_leaves
from fedsim.fields.personal.fedproto import (
    features_of,
    means,
    next_prototypes,
    no_prototypes,
    sums_by_class,
)
from fedsim.tree import Tree
from fedsim.types import Client, LocalPhase, Scored, Travel

BEFORE, HEAD, BODY, AFTER = range(4)
LEAST_SHARE = 1e-3  # of a head, as in the authors' code; smaller ones are left out
MOST_SWEEPS = 1000  # over the shares of all clients


@client
def fedpac(
    lam: Annotated[float, Ge(0)] = 1.0,
    head_epochs: Annotated[int, Ge(1), Le(1000)] = 1,
    personal: list[str] | None = None,
) -> Client:
    """A shared body whose features agree on the classes, and heads mixed from similar clients'.

    The server sends client i the head Σ_j α_ij v_j over the clients j that have taken part, with
    α_i = argmin Σ_j α_j² V_j + Σ_jk α_j α_k ⟨H_i − H_j, H_i − H_k⟩ over shares that add up to one;
    shares up to 0.001 are left out. H_i, a vector for each class c, is p_ic times the mean of the
    features z over the samples of the class, p_ic the share of the class, and
    V_i = (mean ‖z‖² − ‖H_i‖²)/n_i: both over all samples of the client, at the body it was sent.
    Then the client trains the head alone for `head_epochs`, and after it the body alone by
    y ← y − η_l ∇(f_i(y; batch) + λ ℓ), as often as `client.steps` or `epochs` say, with ℓ the mean
    over the batch and over the d numbers of z of (z(x; y) − C̄_c)², where c is the sample's class;
    C̄ is the mean over the prototypes of all clients as in `fedproto`, and for a class of which
    there is none, the client's own mean before it trained. ℓ is 0 until there are prototypes. The
    client's prototypes C_ic are the means of z over all its samples after it trained. All this is
    that of the last round of a client that is absent. A client's own model is the shared body under
    its head v_i as it trained it.

    State: v_i, V_i and H_i for every client, and its prototypes.
    Sends: one model and prototypes, receives the same; V_i and H_i are not counted in its bytes.
    Costs two passes over a client's samples in a round besides those of training, and at the server
    O(N·C·d + N²) for each client of a round and a quadratic program.
    Needs: classes, and a model with features.

    Args:
      lam: λ, how strongly features are drawn to the prototypes.
      head_epochs: passes over the client's samples in which the head is trained.
      personal: leaves of the head, as for `fedper`. Left out: the last layer.

    Raises:
      ValueError: at build time, for names that match no leaf or every leaf, and for a model with a
        single layer.

    References:
      Xu, Tong, Huang 2023, Personalized Federated Learning with Feature Alignment and Classifier
      Collaboration, arXiv:2306.11867, Algorithm 1, by the authors' code.
    """

    def is_body(params):
        return shared_mask(params, personal)

    def head_of(params):
        return unshared_leaves(params, is_body(params))

    def aux(task, params):
        return {"prototypes": no_prototypes(task, params)}

    def memory(shared, key):
        del key
        nothing = tree.zeros_like(shared["aux"]["prototypes"])
        return {
            "head": head_of(shared["params"]),
            "prototypes": nothing,
            "H": nothing["sum"],
            "V": jnp.zeros_like(nothing["sum"][0, 0]),
        }

    def mixed_head(
        rows: Tree, seen: Bool[Array, " M"], own: Int[Array, ""], row: Tree, key: Key[Array, ""]
    ) -> Tree:
        del key
        apart = rows["H"] - row["H"]
        products = tree.gram(apart, seen, centred=False)
        alpha = shares_of_least_risk(products + jnp.diag(rows["V"]), seen)
        alpha = jnp.where(alpha > LEAST_SHARE, alpha, 0)
        mixed = tree.weighted_mean(rows["head"], alpha)
        return {"head": tree.select(seen[own], mixed, row["head"])}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        params = tree.fill_leaves(row["sent"]["head"], shared["params"])
        nothing = tree.zeros_like(row["own"]["prototypes"])
        of_passes = {"before": nothing, "after": nothing, "squares": 0 * work.lr}
        return {"params": params, "stats": shared["stats"]}, {**local, **of_passes}

    def gradient(task, variables, batch, local, shared, work):
        of_all = shared["aux"]["prototypes"]
        is_known = of_all["count"][batch.y] > 0
        target = jnp.where(
            is_known[:, None], means(of_all)[batch.y], means(local["before"])[batch.y]
        )
        aligns = (work.phase == BODY) & jnp.any(of_all["count"] > 0)

        def objective(variables, outputs, batch):
            z = features_of(task, variables, batch)
            apart = jnp.mean((z - target) ** 2, axis=1)
            return task.loss(outputs, batch.y) + lam * jnp.where(aligns, apart, 0)

        (loss, stats), g = task.value_and_grad(variables, batch, objective)
        stats = tree.select(trains(work), stats, variables["stats"])
        return (loss, stats), (g, features_of(task, variables, batch), batch)

    def step(task, g, params, local, shared, work):
        g, z, batch = g
        g = of_phase(g, tree.zeros_like(g), work)
        trained, stepped = hooks.step(task, g, params, local, shared, work)
        params = of_phase(trained, params, work)
        optimizer = tree.select(trains(work), stepped["optimizer"], local["optimizer"])

        seen = sums_by_class(task, z, batch)
        squares = jnp.sum(jnp.where(batch.mask, jnp.sum(z * z, axis=1), 0))
        return params, {
            "optimizer": optimizer,
            "before": _added(local["before"], seen, work.phase == BEFORE),
            "squares": _added(local["squares"], squares, work.phase == BEFORE),
            "after": _added(local["after"], seen, work.phase == AFTER),
        }

    def of_phase(moving, fixed, work):
        """The leaves that this phase trains from one tree, the others from another."""

        def choose(is_body, new, old):
            return tree.select(work.phase == (BODY if is_body else HEAD), new, old)

        return jax.tree.map(choose, is_body(moving), moving, fixed)

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        last = row["own"]["prototypes"]
        prototypes = next_prototypes(local["after"], last, work)
        n = jnp.sum(local["before"]["count"])
        H = tree.over(local["before"]["sum"], n)
        variance = tree.over(local["squares"], n) - jnp.sum(H * H)
        return message._replace(
            aux={"prototypes": tree.subtract(prototypes, last)},
            memory={
                "head": head_of(variables["params"]),
                "prototypes": prototypes,
                "H": H,
                "V": tree.over(variance, n),
            },
        )

    def personal_model(shared, row):
        params = tree.fill_leaves(row["head"], shared["params"])
        return {"params": params, "stats": shared["stats"]}

    return sgd()._replace(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        aux=aux,
        reduce={"prototypes": "sum_over_N"},
        scored=Scored(personal_model),
        phases=(
            LocalPhase("before", steps=1, whole=True),
            LocalPhase("head", steps=head_epochs, whole=True),
            LocalPhase("body"),
            LocalPhase("after", steps=1, whole=True),
        ),
        travel=Travel(sends=mixed_head),
        needs=frozenset({"labels", "features", "no optimizer_state", "solo"}),
    )


def trains(work):
    """Whether a step trains, instead of looking at samples alone."""
    return (work.phase == HEAD) | (work.phase == BODY)


def _added(total, new, counts):
    return tree.add(total, jax.tree.map(lambda leaf: jnp.where(counts, leaf, 0), new))


def shares_of_least_risk(P: Float[Array, "M M"], present: Bool[Array, " M"]) -> Float[Array, " M"]:
    """Return argmin αᵀPα over shares of the present rows, α ≥ 0 with Σ α = 1.

    It is x/Σx with x the minimum of xᵀPx/2 − Σx over x ≥ 0, by coordinate descent. Px follows the
    coordinates, so that absent rows change no bit.

    Args:
      P: a positive semidefinite matrix.
    """
    eps = jnp.finfo(P.dtype).eps
    largest = jnp.max(jnp.where(present, jnp.diagonal(P), 0))
    P = P / jnp.where(largest > 0, largest, 1)

    # Without a bound, a client whose features do not vary would have an infinite x.
    diagonal = jnp.maximum(jnp.diagonal(P), eps)

    def coordinate(j, state):
        x, Px, change = state
        moved_to = jnp.maximum(x[j] + (1 - Px[j]) / diagonal[j], 0)
        step = jnp.where(present[j], moved_to - x[j], 0)
        along = P[:, j].at[j].set(diagonal[j])
        return x.at[j].add(step), Px + step * along, jnp.maximum(change, jnp.abs(step))

    def sweep(state):
        x, Px, _, sweeps = state
        begin = (x, Px, jnp.zeros_like(largest))
        x, Px, change = jax.lax.fori_loop(0, len(x), coordinate, begin)
        return x, Px, change, sweeps + 1

    def has_not_settled(state):
        x, _, change, sweeps = state
        return (change > eps * jnp.max(x)) & (sweeps < MOST_SWEEPS)

    nothing = jnp.zeros_like(diagonal)
    first = sweep((nothing, nothing, largest, 0))
    x, _, _, _ = jax.lax.while_loop(has_not_settled, sweep, first)
    return tree.over(x, tree.sum_weights(x))
