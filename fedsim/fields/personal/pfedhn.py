"""pFedHN: a network at the server makes the model of every client."""

import functools
import itertools
import math
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le, MinLen

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Client, Message, Model, Scored, Travel

Width = Annotated[int, Ge(1), Le(100_000)]


@client
def pfedhn(
    embedding: Width = 16,
    hidden: Annotated[list[Width], MinLen(1)] = [100, 100, 100, 100],  # noqa: B006 (never changed)
    hyper_lr: Annotated[float, Ge(0)] = 0.1,
) -> Client:
    """A model for every client, which a hypernetwork at the server makes of the client's embedding.

    θ_i = h(v_i; φ), a multilayer perceptron with ReLU between its hidden layers and none before its
    last layer, which has the numbers of the model: with one hidden layer, h is linear. Client i
    trains y ← y − η_l ∇f_i(y; batch) from y = θ_i, and sends Δ_i = y − θ_i. The server has
    v_i ← v_i + α (∂θ_i/∂v)ᵀ Δ_i, and moves φ by the mean of α (∂θ_i/∂φ)ᵀ Δ_i. (The paper has one
    client a round.) The last layer begins with weights of 0 and the start model as its bias, so
    that all clients begin there; the others begin as in the authors' code. The shared model is that
    of an embedding of 0, which nobody trains from: judge the method by `personal_accuracy` in
    `clients.csv` (with `data.client_test`).

    State: φ, and v_i for every client, on the server.    Sends: one model.    Rule: `mean`.
    Costs a product with the derivative of h for each client of a round, and φ in its lane.
    With α = 0, all clients keep the start model.

    Args:
      embedding: numbers of an embedding v_i, which begins as N(0, 1). (The authors' code has
        1 + N/4 of them for N clients.)
      hidden: widths of the hypernetwork's hidden layers; the default is that of the authors' code
        (its `n_hidden` of 3 are the layers behind the first).
      hyper_lr: α, the step of φ and v_i.

    References:
      Shamsian, Navon, Fetaya, Chechik 2021, Personalized Federated Learning using Hypernetworks,
      arXiv:2103.04628, Algorithm 1 and equation 3.
    """

    def shares(params):
        shared = jax.tree.map(lambda leaf: True, params)
        return {**shared, "embedding": False}

    def memory(shared, key):
        v = shared["params"]["embedding"]
        return {"v": jax.random.normal(key, v.shape, v.dtype)}

    def personal_model(shared, row):
        params = {**shared["params"], "embedding": row["v"]}
        return {"params": params, "stats": shared["stats"]}

    def start(task, shared, row, work):
        variables = personal_model(shared, row)
        theta = made_alone(variables["params"])
        optimizer = task.optimizer(work.lr).init(theta)
        return variables, {"theta": theta, "optimizer": optimizer}

    def gradient(task, variables, batch, local, shared, work):
        model = {**variables, "params": {"theta": local["theta"]}}
        value, g = hooks.gradient(task, model, batch, local, shared, work)
        return value, g["theta"]

    def step(task, g, params, local, shared, work):
        theta, local = hooks.step(task, g, local["theta"], local, shared, work)
        return params, {**local, "theta": theta}

    def finish(task, shared, variables, local, row, work):
        del task
        direction = pulled_back(personal_model(shared, row)["params"], local["theta"])
        delta = tree.scale(direction, hyper_lr)
        return Message(
            delta=delta,
            stats=variables["stats"],
            aux={},
            memory={"v": row["v"] + delta["embedding"]},
            effort=work.steps.astype(jnp.result_type(work.lr)),
        )

    return sgd()._replace(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        travel=Travel(shares=shares, instead=lambda params: params["last"]["b"]),
        scored=Scored(personal_model),
        model=lambda model, x: hypernetwork(model, embedding=embedding, hidden=tuple(hidden)),
        needs=frozenset({"no optimizer_state"}),
    )


@functools.lru_cache(64)
def hypernetwork(model: Model, embedding: int, hidden: tuple[int, ...]) -> Model:
    """Return a model whose parameters a hypernetwork makes of its leaf `embedding`.

    Args:
      model: the model. Its own parameters, as `{"theta": ...}`, may stand in place of those of a
        hypernetwork.
    """

    def init(key):
        variables = model.init(key)
        theta = variables["params"]
        dtype = jnp.result_type(*jax.tree.leaves(theta))
        layers = {}
        for number, sizes in enumerate(itertools.pairwise((embedding, *hidden))):
            layer_key = jax.random.fold_in(key, number + 1)  # that of 0 may be the model's
            layers[f"layer{number}"] = _drawn_layer(layer_key, *sizes, dtype)
        nothing = lambda leaf: jnp.zeros((hidden[-1], *leaf.shape), leaf.dtype)
        last = {"W": jax.tree.map(nothing, theta), "b": theta}
        params = {"embedding": jnp.zeros(embedding, dtype), **layers, "last": last}
        return {**variables, "params": params}

    def apply(variables, x, **options):
        params = variables["params"]
        theta = params["theta"] if "theta" in params else made(params)
        return model.apply({**variables, "params": theta}, x, **options)

    return Model(
        init=init,
        apply=apply,
        mixes_rows=model.mixes_rows,
        begins=lambda drawn, params: {**drawn, "last": {**drawn["last"], "b": params}},
    )


def made(params: Tree) -> Tree:
    """Return the model that a hypernetwork makes of the embedding among its parameters."""
    h = params["embedding"]
    layers = len(params) - 2
    for number in range(layers):
        if number > 0:
            h = jax.nn.relu(h)
        layer = params[f"layer{number}"]
        h = h @ layer["W"] + layer["b"]
    last = params["last"]
    return jax.tree.map(lambda W, b: jnp.tensordot(h, W, 1) + b, last["W"], last["b"])


# Client by client: products of all lanes with the same weights would add in another order, which
# depends on how many there are.
made_alone = jax.custom_batching.sequential_vmap(made)


@jax.custom_batching.sequential_vmap
def pulled_back(params: Tree, trained: Tree) -> Tree:
    """Return (∂θ/∂params)ᵀ (trained − θ), with θ as it is made of `params`."""
    theta, pull_back = jax.vjp(made, params)
    (direction,) = pull_back(tree.subtract(trained, theta))
    return direction


def _drawn_layer(key, inputs: int, outputs: int, dtype) -> Tree:
    """Return a layer uniform in ±1/√inputs, weights and biases, as torch draws them."""
    bound = 1 / math.sqrt(inputs)
    of_W, of_b = jax.random.split(key)
    return {
        "W": jax.random.uniform(of_W, (inputs, outputs), dtype, -bound, bound),
        "b": jax.random.uniform(of_b, (outputs,), dtype, -bound, bound),
    }
