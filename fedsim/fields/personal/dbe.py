"""DBE: every client adds a bias of its own to the features, which agree in the mean."""

import functools
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.fields.personal.fedproto import features_of
from fedsim.types import Client, Model, Scored, Travel


@client
def dbe(
    kappa: Annotated[float, Ge(0)] = 50.0,
    batch_weight: Annotated[float, Gt(0), Le(1)] = 0.1,
) -> Client:
    """A bias of the client's own on the features, whose mean is drawn to that of all clients.

    y ← y − η_l ∇(f_i(y, b_i; batch) + κ mean_d ½(m − z̄)²), and b_i likewise, from y = x, where the
    head sees z + b_i in place of the features z, of d numbers, and m ← (1 − μ) m + μ mean z over
    the batch, from 0 in each round, the last m without a derivative. b_i begins at 0. z̄ is the mean
    of the m with which clients ended their first rounds, by their samples; until there is one, b_i
    rests and κ is 0. The shared model begins at the start model, and has no bias. The head is a
    linear layer. (In the authors'
    code all clients train once before the first round, and of that only z̄ is kept.)

    State: b_i, d numbers a client, and the m of its first round.
    Sends: one model and a mean, receives the same.    Rule: `mean`.
    Costs the features of a batch once more in a step.
    Needs: classes, and a model with features.

    Args:
      kappa: κ, how strongly the mean of the features is drawn to that of all clients.
      batch_weight: μ, the weight of a batch in the running mean.

    References:
      Zhang et al. 2023, Eliminating Domain Bias for Federated Learning in Representation Space,
      arXiv:2311.14975, Algorithm 1, by the authors' code in PFLlib.
    """

    def shares(params):
        everything = jax.tree.map(lambda leaf: True, params["model"])
        return {"model": everything, "bias": False}

    def aux(task, params):
        del task
        bias = params["bias"]
        return {"mean": {"sum": jnp.zeros_like(bias), "count": jnp.zeros((), bias.dtype)}}

    def memory(shared, key):
        del key
        return {"bias": shared["params"]["bias"], "mean": tree.zeros_like(shared["aux"]["mean"])}

    def personal_model(shared, row):
        params = {**shared["params"], "bias": row["bias"]}
        return {"params": params, "stats": shared["stats"]}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        return personal_model(shared, row), {**local, "m": jnp.zeros_like(row["bias"])}

    def gradient(task, variables, batch, local, shared, work):
        of_all = shared["aux"]["mean"]
        is_known = of_all["count"] > 0
        consensus = tree.over(of_all["sum"], of_all["count"])

        def running_mean(variables):
            z = features_of(task, variables, batch)
            rows = jnp.sum(batch.mask).astype(work.lr.dtype)
            of_batch = tree.over(jnp.sum(jnp.where(batch.mask[:, None], z, 0), axis=0), rows)
            return tree.mix(local["m"], of_batch.reshape(local["m"].shape), batch_weight)

        def objective(variables, outputs, batch):
            apart = jnp.mean((running_mean(variables) - consensus) ** 2) / 2
            return task.loss(outputs, batch.y) + jnp.where(is_known, kappa * apart, 0)

        value, g = task.value_and_grad(variables, batch, objective)
        bias = jnp.where(is_known, g["bias"], 0)
        return value, ({**g, "bias": bias}, running_mean(variables))

    def step(task, g, params, local, shared, work):
        g, m = g
        params, local = hooks.step(task, g, params, local, shared, work)
        return params, {**local, "m": m}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        first = {"sum": work.samples * local["m"], "count": work.samples}
        mean = tree.select(row["mean"]["count"] > 0, row["mean"], first)
        return message._replace(
            aux={"mean": tree.subtract(mean, row["mean"])},
            memory={"bias": variables["params"]["bias"], "mean": mean},
        )

    return sgd()._replace(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        aux=aux,
        reduce={"mean": "sum_over_N"},
        travel=Travel(shares=shares),
        scored=Scored(personal_model),
        model=with_bias,
        needs=frozenset({"classes", "features", "solo"}),
    )


@functools.lru_cache(64)
def with_bias(model: Model, x: jax.ShapeDtypeStruct) -> Model:
    """Return a model with the leaf `bias`, which is added to the features before a linear head."""
    features, head = model.features, model.head
    assert features is not None and head is not None

    def init(key):
        variables = model.init(key)
        z = jax.eval_shape(features, variables, x)
        bias = jnp.zeros(z.shape[1:], z.dtype)
        return {**variables, "params": {"model": variables["params"], "bias": bias}}

    def inner(variables):
        return {**variables, "params": variables["params"]["model"]}

    def apply(variables, x, **options):
        outputs, stats = model.apply(inner(variables), x, **options)
        bias = variables["params"]["bias"][None]
        weights = inner(variables)
        return outputs + head(weights, bias) - head(weights, 0 * bias), stats

    return Model(
        init=init,
        apply=apply,
        features=lambda variables, x: features(inner(variables), x),
        mixes_rows=model.mixes_rows,
        begins=lambda drawn, params: {**drawn, "model": params},
    )
