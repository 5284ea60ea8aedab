"""Gradients of DP-SGD are noised in float32, whatever dtype the model computes in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsim.engine.task import task
from fedsim.fields.privacy.dp_sgd import dp_sgd as private_steps
from fedsim.losses import cross_entropy
from fedsim.models import mlp
from fedsim.models.computing import computing_in
from fedsim.types import Batch, Work


@pytest.mark.long
def test_gradients_are_noised_in_float32():
    """The noise of an empty batch in bfloat16 is that in float32, to float32's rounding."""
    x = jnp.zeros((5, 16, 16, 1), jnp.float32)
    nobody = jnp.zeros(5, bool)
    batch = Batch(x=x, y=jnp.zeros(5, int), mask=nobody, key=jax.random.key(1), step=jnp.int32(0))
    net = mlp([8])((256,), 3)
    variables = net.init(jax.random.key(0))
    private = private_steps(clip=1.0, noise_multiplier=3.0, expected=4)
    noise = []
    for model in (net, computing_in(net, "bfloat16")):
        learning = task(model, cross_entropy(), lambda lr: None, lambda lr, step: lr, 3)
        noised = private(learning, jax.random.key(2), Work(*[jnp.float32(5)] * 7))
        _, gradient = jax.jit(noised.value_and_grad)(variables, batch)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(gradient)} == {"float32"}
        assert jax.tree.all(jax.tree.map(jnp.any, gradient))
        noise.append(gradient)
    close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6)
    jax.tree.map(close, *noise)
