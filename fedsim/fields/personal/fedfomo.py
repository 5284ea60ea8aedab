"""FedFomo: every client weighs other clients' models by what they gain it."""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le, Lt
from jaxtyping import Array, Bool, Int, Key

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Client, LocalPhase, Scored, Travel

COMPARE, LOCAL = range(2)


@client
def fedfomo(
    models: Annotated[int, Ge(1), Le(1000)] = 5,
    held_out: Annotated[float, Gt(0), Lt(1)] = 0.2,
) -> Client:
    """A model for every client, which moves towards those of clients whose models suit it better.

    The server sends client i the last models w_n of k clients, drawn from those that have taken
    part. With L_i the mean loss over samples that the client holds out of its training,
    a_n = max(0, (L_i(w_i) − L_i(w_n)) / ‖w_n − w_i‖). Then y ← w_i + Σ_n (a_n/Σ_m a_m) (w_n − w_i),
    or y = w_i where no model is better, plain local training of y on the other samples, and
    w_i ← y. A client with a single sample holds none out, and keeps to its own model. The shared
    model is moved by the mean of w_i − x, and nobody trains from it: judge the method by
    `personal_accuracy` in `clients.csv` (with `data.client_test`).
    The paper's server draws models that a client gained from more often; here all are equally
    likely (its ε = 1). With k at least the number of the other clients, all are sent.

    State: w_i, one model a client.    Sends: one model, receives k.    Rule: `mean`.
    Costs k + 1 losses on the samples held out, counted like gradients and in `train_loss`, and the
    models of all clients in memory.

    Args:
      models: k, how many models a client receives in a round.
      held_out: share of a client's samples that it compares models on, and does not train on.

    References:
      Zhang, Sapra, Fidler, Yeung, Alvarez 2021, Personalized Federated Learning with First Order
      Model Optimization, arXiv:2012.08565, equations 3 to 6.
    """

    def memory(shared, key):
        # A number of the client, by which draws do not depend on which clients have rows.
        return {"w": shared["params"], "lot": jax.random.bits(key, (), jnp.uint32)}

    def drawn(
        rows: Tree, seen: Bool[Array, " M"], own: Int[Array, ""], row: Tree, key: Key[Array, ""]
    ) -> Tree:
        del row

        def rank_of(lot):
            return jax.random.uniform(jax.random.fold_in(key, lot), (), jnp.float32)

        others = seen & (jnp.arange(len(seen)) != own)
        rank = jnp.where(others, jax.vmap(rank_of)(rows["lot"]), 2)  # all others are below 1
        chosen = jnp.resize(jnp.argsort(rank), (models,))
        return {"w": tree.take(rows["w"], chosen), "valid": jnp.arange(models) < others.sum()}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        own = row["own"]["w"]
        sent = row["sent"]
        variables = {"params": own, "stats": shared["stats"]}
        return variables, {
            **local,
            "candidates": jax.tree.map(_first_of_all, own, sent["w"]),  # [k + 1, ...]
            "valid": sent["valid"],
            "losses": jnp.zeros(models + 1, work.lr.dtype),
        }

    def gradient(task, variables, batch, local, shared, work):
        compares = work.phase == COMPARE
        candidate = tree.take(local["candidates"], work.substep)
        params = tree.select(compares, candidate, variables["params"])
        (loss, stats), g = hooks.gradient(
            task, {**variables, "params": params}, batch, local, shared, work
        )
        stats = tree.select(compares, variables["stats"], stats)
        return (loss, stats), (g, jnp.where(compares, loss * batch.mask.sum(), 0))

    def step(task, g, params, local, shared, work):
        g, loss = g
        losses = local["losses"].at[work.substep].add(loss)
        compares = work.phase == COMPARE
        mixed = _mixture(local["candidates"], local["valid"], losses)

        # Only when the last of the models has seen the batch can they be compared.
        mixed = tree.select(work.substep == models, mixed, params)
        trained, stepped = hooks.step(task, g, params, local, shared, work)
        params, optimizer = tree.select(
            compares, (mixed, local["optimizer"]), (trained, stepped["optimizer"])
        )
        return params, {**local, "losses": losses, "optimizer": optimizer}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"w": variables["params"], "lot": row["own"]["lot"]})

    def personal_model(shared, row):
        return {"params": row["w"], "stats": shared["stats"]}

    compare = LocalPhase(
        "compare", steps=1, substeps=models + 1, same_batch=True, held_out=held_out
    )
    return sgd()._replace(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        scored=Scored(personal_model),
        phases=(compare, LocalPhase("local")),
        needs=frozenset({"no optimizer_state"}),
        travel=Travel(sends=drawn, models=models),
    )


def _first_of_all(own, others):
    return jnp.concatenate([own[None], others])


def _mixture(candidates, valid, losses):
    """Return a client's model moved towards better ones.

    Args:
      candidates: the client's model, and after it those of others `[k + 1, ...]`.
      valid: which of the others there are `[k]`.
      losses: of each on the samples held out, all over as many of them `[k + 1]`.
    """
    own = tree.take(candidates, 0)
    others = jax.tree.map(lambda leaf: leaf[1:], candidates)
    apart = tree.norms(others, own)
    differs = valid & (apart > 0)
    gain = jnp.maximum(losses[0] - losses[1:], 0) / jnp.where(differs, apart, 1)
    gain = jnp.where(differs, gain, 0)
    weights = gain / jnp.where(gain.sum() > 0, gain.sum(), 1)
    return tree.fold(own, tree.subtract(others, own), weights)
