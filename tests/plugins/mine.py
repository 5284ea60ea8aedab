"""A user's file: a rule in six lines, a client method in ten."""

import jax
import jax.numpy as jnp

import fedsim
from fedsim.clients import sgd


@fedsim.rule
def loudest(scale: float = 1.0):
    def apply(updates, context):
        norms = sum(
            jnp.sum(leaf.reshape(len(leaf), -1) ** 2, 1) for leaf in jax.tree.leaves(updates.delta)
        )
        return jax.tree.map(
            lambda leaf: scale * leaf[jnp.argmax(jnp.where(updates.weight > 0, norms, -1))],
            updates.delta,
        )

    return apply  # fmt: skip


@fedsim.client
def decayed(strength: float = 0.1):
    def gradient(task, variables, batch, local, shared, work):
        met, g = task.value_and_grad(variables, batch)
        return met, jax.tree.map(lambda g, y: g + strength * y, g, variables["params"])

    return sgd()._replace(gradient=gradient)


@fedsim.stage
def halve():
    return lambda updates, context: updates._replace(
        delta=jax.tree.map(lambda leaf: leaf / 2, updates.delta)
    )


@fedsim.attack
def silence():
    return lambda updates, context: jax.tree.map(jnp.zeros_like, updates.delta)


@fedsim.dataset
def two_points(seed: int = 0):
    import numpy as np

    x = np.random.default_rng(seed).normal(size=(60, 3))
    return fedsim.Arrays(x, (x[:, 0] > 0).astype(int))


@fedsim.model
def signs():
    def build(shape, outputs):
        def apply(params, x):
            return x @ params

        return fedsim.as_model(lambda key: jnp.zeros((shape[0], outputs)), apply)

    return build
