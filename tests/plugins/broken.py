"""A user's first attempts: every function here returns what its caller cannot take, or fails."""

import jax
import jax.numpy as jnp

import fedsim
from fedsim.clients import sgd
from fedsim.fleet import Cohort
from fedsim.types import Model, RowStage, Rule, Scored, Travel


def first(tree):
    return jax.tree.map(lambda x: x[0], tree)


@fedsim.rule
def whole_stack():
    return lambda updates, context: updates.delta


@fedsim.rule
def integers():
    return lambda updates, context: jax.tree.map(
        lambda x: x.astype(jnp.int32), first(updates.delta)
    )


@fedsim.rule
def renamed():
    return lambda updates, context: {"w": first(updates.delta)["W"]}


@fedsim.rule
def forgetful():
    def reduce(updates, context):
        first(updates.delta)

    return reduce


@fedsim.rule
def talkative():
    return lambda updates, context: "the first one"


@fedsim.rule
def misspelt():
    return lambda updates, context: updates.detla


@fedsim.rule
def undecided():
    def reduce(updates, context):
        if updates.weight[0] > 0:
            return first(updates.delta)
        return jax.tree.map(jnp.zeros_like, first(updates.delta))

    return reduce


@fedsim.rule
def growing():
    apply = lambda updates, state, context: (first(updates.delta), jnp.stack([state, state]), {})
    return Rule(apply, init=lambda params, present: jnp.zeros(2))


@fedsim.rule
def stateless():
    return Rule(lambda updates, state, context: first(updates.delta))


@fedsim.rule
def unreturned():
    lambda updates, context: first(updates.delta)


@fedsim.stage
def weighed():
    return lambda updates, context: updates._replace(weight=updates.weight / 2)


@fedsim.stage
def every_other():
    return lambda updates, context: updates._replace(
        delta=jax.tree.map(lambda x: x[::2], updates.delta)
    )


@fedsim.stage
def bare():
    return lambda updates, context: updates.delta


@fedsim.stage
def summed():
    return RowStage(lambda row, context: row._replace(delta=jax.tree.map(jnp.sum, row.delta)))


@fedsim.attack
def elsewhere():
    return lambda updates, context: {"w": updates.delta["W"]}


@fedsim.attack
def deeper():
    return lambda updates, context: jax.tree.map(lambda x: x[..., None], updates.delta)


@fedsim.client
def lossless():
    return sgd()._replace(
        gradient=lambda task, variables, *others: task.value_and_grad(variables, others[0])[1]
    )


@fedsim.client
def halved():
    def step(task, gradient, params, local, shared, work):
        return jax.tree.map(lambda p: p.astype(jnp.float16), params), local

    return sgd()._replace(step=step)


@fedsim.client
def hoarding():
    plain = sgd()

    def step(task, gradient, params, local, shared, work):
        params, local = plain.step(task, gradient, params, local, shared, work)
        return params, {**local, "last": gradient}

    return plain._replace(step=step)


@fedsim.client
def boxed():
    plain = sgd()

    def finish(task, shared, variables, local, row, work):
        return plain.finish(task, shared, variables, local, row, work)._replace(delta=variables)

    return plain._replace(finish=finish)


@fedsim.client
def swelling():
    plain = sgd()

    def finish(task, shared, variables, local, row, work):
        return plain.finish(task, shared, variables, local, row, work)._replace(memory=jnp.zeros(3))

    return plain._replace(memory=lambda shared, key: jnp.zeros(2), finish=finish)


@fedsim.client
def unannounced():
    plain = sgd()

    def finish(task, shared, variables, local, row, work):
        return plain.finish(task, shared, variables, local, row, work)._replace(
            aux={"h": variables["params"]}
        )

    return plain._replace(finish=finish)


@fedsim.client
def misnamed():
    def gradient(task, variables, batch, local, shared, work):
        met, g = task.value_and_grad(variables, batch)
        return met, jax.tree.map(jnp.add, g, shared["momentum"])

    return sgd()._replace(gradient=gradient)


@fedsim.client
def nobody():
    sgd()


@fedsim.model
def narrow():
    def build(shape, outputs):
        return fedsim.as_model(lambda key: jnp.zeros((*shape, 1)), lambda params, x: x @ params)

    return build


@fedsim.model
def unfitting():
    def build(shape, outputs):
        return fedsim.as_model(lambda key: jnp.zeros((7, outputs)), lambda params, x: x @ params)

    return build


@fedsim.model
def outputs_alone():
    def build(shape, outputs):
        init = lambda key: {"params": jnp.zeros((*shape, outputs)), "stats": {}}
        return Model(init, lambda variables, x, **options: x @ variables["params"])

    return build


@fedsim.model
def unnamed():
    def build(shape, outputs):
        return fedsim.as_model(
            lambda key: jnp.zeros((*shape, outputs)), lambda params, x: features @ params
        )

    return build


@fedsim.client
def faceless():
    """A model of its own without one of the leaves."""
    own = lambda shared, row: {"params": {"W": shared["params"]["W"]}, "stats": {}}
    return sgd()._replace(scored=Scored(own))


@fedsim.client
def secretive():
    return sgd()._replace(travel=Travel(shares=lambda params: {"W": False, "b": False}))


@fedsim.client
def undecidable():
    shares = lambda params: jax.tree.map(lambda leaf: leaf.size > limit, params)
    return sgd()._replace(travel=Travel(shares=shares))


@fedsim.cohort
def insatiable():
    return Cohort(
        lambda population, round, rng: population.ids, lambda N: N, needs=frozenset({"losses"})
    )


@fedsim.client
def demanding():
    return sgd()._replace(needs=frozenset({"lables"}))
