"""FedEM: every client's data are a mixture of k distributions, with a model for each."""

import functools
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.types import Client, Model, Scored, Travel


@client
def fedem(components: Annotated[int, Ge(1), Le(1000)] = 3) -> Client:
    """K models that all clients train, and for every client its own weights of them.

    With ℓ_m(s) the loss of sample s at θ_m and q_m(s) ∝ π_im e^{−ℓ_m(s)} at the models that were
    sent, a client takes steps θ_m ← θ_m − η_l (1/B) Σ_{s∈batch} q_m(s) ∇ℓ_m(s) on all of them, and
    π_im becomes the mean of q_m over its samples of the round: all of them in an epoch. A client
    predicts Σ_m π_im p_m(y|x). The shared model is scored with π_m = 1/k: judge the method by
    `personal_accuracy` in `clients.csv` (with `data.client_test`).

    The models begin at k draws, of which the first is the start model, or at those that
    `fedsim.run(params=[...])` lists; all π_im begin at 1/k.

    State: π_i, k numbers a client.    Sends: k models, receives k.    Rule: `mean`.
    Costs k gradients per step, and k losses at the models that were sent.
    With `components: 1`: `sgd`.

    Args:
      components: k, the number of models.

    References:
      Marfoq, Neglia, Bellet, Kameni, Vidal 2021, Federated Multi-Task Learning under a Mixture of
      Distributions, arXiv:2108.10617, Algorithm 1 (FedEM).
    """

    def shares(params):
        everything = jax.tree.map(lambda leaf: True, params["theta"])
        return {"theta": everything, "pi": False}

    def memory(shared, key):
        del key
        return {"pi": shared["params"]["pi"]}

    def personal_model(shared, row):
        params = {"theta": shared["params"]["theta"], "pi": row["pi"]}
        return {"params": params, "stats": shared["stats"]}

    def start(task, shared, row, work):
        variables = personal_model(shared, row)
        _, local = hooks.start(task, shared, row, work)
        nothing = 0 * work.lr
        return variables, {
            **local,
            "sent": variables,
            "sum": jnp.zeros_like(row["pi"]),
            "rows": nothing,
        }

    def gradient(task, variables, batch, local, shared, work):
        del shared, work
        q = responsibilities(task, local["sent"], batch)  # [k, B]

        def of_component(component, q_m):
            def weighted(variables, outputs, batch):
                del variables
                return q_m * task.loss(outputs, batch.y)

            (loss, stats), g = task.value_and_grad(component, batch, weighted)
            return loss, stats, g["theta"]

        losses, stats, g = jax.vmap(of_component)(_components(variables), q)
        pi = local["sent"]["params"]["pi"]
        take_away = lambda leaf: jnp.squeeze(leaf, axis=1)  # the components of each, [k, 1, ...]
        theta = jax.tree.map(take_away, g)
        stats = jax.tree.map(take_away, stats)
        direction = {"theta": theta, "pi": jnp.zeros_like(pi)}
        return (jnp.sum(pi * losses), stats), (direction, q, batch.mask)

    def step(task, g, params, local, shared, work):
        direction, q, mask = g
        params, local = hooks.step(task, direction, params, local, shared, work)
        counted = jnp.where(mask[None, :], q, 0)
        total = local["sum"] + counted.sum(axis=1)
        rows = local["rows"] + mask.sum().astype(local["rows"].dtype)
        kept_weights = {"theta": params["theta"], "pi": local["sent"]["params"]["pi"]}
        return kept_weights, {**local, "sum": total, "rows": rows}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        pi = jnp.where(local["rows"] > 0, tree.over(local["sum"], local["rows"]), row["pi"])
        return message._replace(memory={"pi": pi})

    return sgd()._replace(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        travel=Travel(shares=shares),
        scored=Scored(personal_model),
        model=lambda model, x: mixture(model, components=components),
        needs=frozenset({"classes", "softmax"}),
    )


def responsibilities(task, variables, batch):
    """Return q_m(s), the share of each component in each sample of a batch `[k, B]`."""

    def losses(component):
        outputs, _ = task.apply(component, batch.x, mask=batch.mask, key=batch.key, train=False)
        return task.loss(outputs, batch.y)

    by_component = jax.vmap(losses)(_components(variables))  # [k, B]
    log_pi = jnp.log(variables["params"]["pi"])[:, None]
    return jax.nn.softmax(log_pi - by_component, axis=0)


def _components(variables):
    """Return every component as a mixture of one `[k, 1, ...]`."""
    alone = lambda leaf: leaf[:, None]
    pi = variables["params"]["pi"]
    theta = jax.tree.map(alone, variables["params"]["theta"])
    params = {"theta": theta, "pi": jnp.ones_like(pi)[:, None]}
    return {"params": params, "stats": jax.tree.map(alone, variables["stats"])}


@functools.lru_cache(64)
def mixture(model: Model, components: int) -> Model:
    """Return a model of `components` models, whose outputs are log Σ_m π_m p_m(y|x).

    Its parameters are `theta` `[k, ...]`, drawn one by one, and the weights `pi` `[k]`, 1/k each.
    """

    def init(key):
        # The first is drawn as a single model would be.
        drawn = [model.init(key)]
        for number in range(1, components):
            drawn.append(model.init(jax.random.fold_in(key, number)))
        stacked = tree.stack(drawn)
        dtype = jnp.result_type(*jax.tree.leaves(stacked["params"]))
        pi = jnp.full(components, 1 / components, dtype)
        return {"params": {"theta": stacked["params"], "pi": pi}, "stats": stacked["stats"]}

    def apply(variables, x, *, mask=None, key=None, train=False):
        def log_probabilities(params, stats):
            component = {"params": params, "stats": stats}
            outputs, stats = model.apply(component, x, mask=mask, key=key, train=train)
            return jax.nn.log_softmax(outputs), stats

        params = variables["params"]
        by_component, stats = jax.vmap(log_probabilities)(params["theta"], variables["stats"])
        log_pi = jnp.log(params["pi"]).reshape(-1, *[1] * (by_component.ndim - 1))
        return jax.nn.logsumexp(log_pi + by_component, axis=0), stats

    def begins(drawn, params):
        theta = tree.stack(hooks.one_of_each(params, components, "fedem"))
        return {**drawn, "theta": theta}

    return Model(init=init, apply=apply, mixes_rows=model.mixes_rows, begins=begins)
