"""SuPerFed: models between the shared one and the client's own, all of which are good."""

import functools
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le
from jaxtyping import Array, Float

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.sgd import sgd
from fedsim.compose import client, tag_of
from fedsim.tree import Tree
from fedsim.types import Client, Model, Scored, Travel


@client
def superfed(
    mu: Annotated[float, Ge(0)] = 0.01,
    nu: Annotated[float, Ge(0)] = 2.0,
    share: Annotated[float, Ge(0), Le(1)] = 0.5,
) -> Client:
    """A shared and an own model, trained at mixtures of both: SuPerFed-MM.

    With w from x and v from v_i, and ξ ~ U(0, 1) drawn for every batch, a step goes along the
    gradient by w and v of  f_i((1 − ξ) w + ξ v; batch) + μ Σ_l ‖w_l − x_l‖ + ν cos²(w, v)  over the
    leaves l. The client sends w − x, and v_i ← v. Its own model is (1 − λ) x + λ v_i. x begins at
    the start model, and all v_i at one second draw of it. (The authors mix from the first round on
    if their L is 0, as here, score eleven λ, and mix all biases but those of normalisations alike;
    here all leaves are mixed.)

    State: v_i, one model a client.    Sends: one model.    Rule: `mean`.
    Costs one gradient a step, and both models in a lane.

    Args:
      mu: μ, strength of the pull of w to x.
      nu: ν, how strongly w and v are made orthogonal.
      share: λ, the share of v_i in the client's own model when it is scored.

    References:
      Hahn, Jeong, Lee 2022, Connecting Low-Loss Subspace for Personalized Federated Learning,
      arXiv:2109.07628, Algorithm 1 (SuPerFed-MM), with the authors' code for both penalties.
    """

    def shares(params):
        nothing = jax.tree.map(lambda leaf: False, params)
        return {**nothing, "shared": jax.tree.map(lambda leaf: True, params["shared"])}

    def memory(shared, key):
        del key
        return {"v": shared["params"]["own"]}

    def personal_model(shared, row):
        lam = jnp.full_like(shared["params"]["lam"], share)
        params = {"shared": shared["params"]["shared"], "own": row["v"], "lam": lam}
        return {"params": params, "stats": shared["stats"]}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        return personal_model(shared, row), local

    def gradient(task, variables, batch, local, shared, work):
        w, v = variables["params"]["shared"], variables["params"]["own"]
        key = jax.random.fold_in(batch.key, tag_of("superfed"))
        xi = jax.random.uniform(key, (), work.lr.dtype)
        model = {**variables, "params": {"theta": between(w, v, xi)}}
        value, g = hooks.gradient(task, model, batch, local, shared, work)
        of_mixture = g["theta"]

        x = shared["params"]["shared"]
        of_penalties = penalty_gradient(
            w, v, x, jnp.asarray(mu, xi.dtype), jnp.asarray(nu, xi.dtype)
        )
        by_w = tree.add(tree.scale(of_mixture, 1 - xi), of_penalties[0])
        by_v = tree.add(tree.scale(of_mixture, xi), of_penalties[1])
        nothing = jnp.zeros_like(variables["params"]["lam"])
        return value, {"shared": by_w, "own": by_v, "lam": nothing}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"v": variables["params"]["own"]})

    return sgd()._replace(
        memory=memory,
        start=start,
        gradient=gradient,
        finish=finish,
        travel=Travel(shares=shares),
        scored=Scored(personal_model),
        model=lambda model, x: subspace(model),
    )


def penalty(w: Tree, v: Tree, x: Tree, mu, nu) -> Float[Array, ""]:
    """Return μ Σ_l ‖w_l − x_l‖ + ν cos²(w, v), with a cosine of 0 where one of the two is 0."""
    apart = [_length(leaf) for leaf in jax.tree.leaves(tree.subtract(w, x))]
    squares = _dot(w, w) * _dot(v, v)
    cosine_squared = _dot(w, v) ** 2 / jnp.where(squares > 0, squares, 1)
    return mu * sum(apart) + nu * cosine_squared


# Client by client: sums over the leaves of all lanes would add in another order, which depends on
# how many there are.
penalty_gradient = jax.custom_batching.sequential_vmap(jax.grad(penalty, argnums=(0, 1)))


def _length(leaf: Array) -> Float[Array, ""]:
    """Return the norm of a leaf, whose derivative at 0 is 0."""
    square = jnp.sum(leaf**2)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def _dot(a: Tree, b: Tree) -> Float[Array, ""]:
    products = jax.tree.map(lambda a, b: jnp.sum(a * b), a, b)
    return functools.reduce(jnp.add, jax.tree.leaves(products))


def between(w: Tree, v: Tree, xi) -> Tree:
    """Return (1 − ξ) w + ξ v."""
    return jax.tree.map(lambda w, v: w + xi * (v - w), w, v)


@functools.lru_cache(64)
def subspace(model: Model) -> Model:
    """Return a model between two of its kind: `shared` and `own`, with the share `lam` of the own.

    It starts with a share of 0. A point, as `{"theta": ...}`, may stand in place of the parameters.
    """

    def init(key):
        variables = model.init(key)
        own = model.init(jax.random.fold_in(key, 1))["params"]
        lam = jnp.zeros((), jnp.result_type(*jax.tree.leaves(own)))
        params = {"shared": variables["params"], "own": own, "lam": lam}
        return {**variables, "params": params}

    def at_point(variables):
        params = variables["params"]
        if "theta" not in params:
            theta = between(params["shared"], params["own"], params["lam"])
            return {**variables, "params": theta}
        return {**variables, "params": params["theta"]}

    def apply(variables, x, **options):
        return model.apply(at_point(variables), x, **options)

    features = None
    if model.features is not None:
        of_model = model.features
        features = lambda variables, x: of_model(at_point(variables), x)
    return Model(
        init=init,
        apply=apply,
        features=features,
        mixes_rows=model.mixes_rows,
        begins=lambda drawn, params: {**drawn, "shared": params},
    )
