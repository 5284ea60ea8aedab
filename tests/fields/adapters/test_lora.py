"""LoRA: low-rank matrices next to frozen weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim import tree
from fedsim.clients import sgd
from fedsim.fields.adapters.factors import LowRank
from fedsim.models.dense import product
from fedsim.models.sequences import positionwise


def written(**model) -> dict:
    return {
        "name": "lora",
        "rounds": 2,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 8},
        "model": {"kind": "mlp", "hidden": [6], **model},
        "cohort": {"kind": "uniform", "size": 4},
        "client": {"lr": 0.1, "batch": 8},
    }


@pytest.mark.long
def test_factors_give_what_the_adapted_weight_gives():
    """x W + s (x A) B and its gradients, as those of x (W + s A B)."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        W, A, B = (jnp.asarray(rng.normal(size=shape)) for shape in [(5, 4), (5, 2), (2, 4)])
        x = jnp.asarray(rng.normal(size=(3, 5)))

        def in_factors(x, A, B):
            return jnp.sin(product(x, LowRank(W, A, B, jnp.asarray(1.5)))).sum()

        def at_positions(x, A, B):
            layer = {"W": LowRank(W, A, B, jnp.asarray(1.5)), "b": jnp.zeros(4)}
            return jnp.sin(positionwise(layer, x[:, None])).sum()

        def merged(x, A, B):
            return jnp.sin(x @ (W + 1.5 * A @ B)).sum()

        expected = jax.value_and_grad(merged, (0, 1, 2))(x, A, B)
        for function in (in_factors, at_positions):
            given = jax.value_and_grad(function, (0, 1, 2))(x, A, B)
            close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
            jax.tree.map(close, given, expected)


@pytest.mark.long
def test_frozen_a_is_a_method_that_sends_b_alone():
    """FFA-LoRA: the same bits as a client that has no gradient of A, at half the bytes."""
    low_rank = {"kind": "lora", "rank": 3}
    frozen = fedsim.run(written(adapter=low_rank, freeze=["lora_A"]))
    masked = fedsim.run(
        {**written(adapter=low_rank), "client": {"kind": "still_a", "lr": 0.1, "batch": 8}}
    )
    same = lambda a, b: np.testing.assert_array_equal(a, b)
    jax.tree.map(same, frozen.model(), masked.model())
    numbers = 3 * 6 + 3 * 10
    assert frozen.rounds.iloc[-1]["bytes_up"] == 2 * 4 * 4 * numbers


@fedsim.client
def still_a():
    """Plain local training in which no A has a gradient."""
    client = sgd()

    def gradient(task, variables, batch, local, shared, work):
        value, g = client.gradient(task, variables, batch, local, shared, work)
        is_a = tree.mask_by_name(g, lambda name: name.endswith("lora_A"))
        return value, jax.tree.map(lambda a, leaf: leaf * (not a), is_a, g)

    return client._replace(gradient=gradient)
