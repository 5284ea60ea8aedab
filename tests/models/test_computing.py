"""Models that compute in bfloat16, and blocks whose values are computed again for the gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsim.engine.task import task
from fedsim.losses import cross_entropy
from fedsim.models import char_gru, char_lstm, cnn, lenet, mlp, resnet, transformer
from fedsim.models.computing import computing_in
from fedsim.models.tokens import Tokens
from fedsim.types import Batch

EPSILON = 2.0**-8  # of bfloat16: 1 + EPSILON / 2 rounds to 1
RNG = np.random.default_rng(0)
IMAGES = jnp.asarray(RNG.normal(size=(5, 16, 16, 1)), jnp.float32)
TEXTS = jnp.asarray(RNG.integers(0, 7, (5, 6)))
OF_TEXTS = (TEXTS, Tokens(vocabulary=7, every=False))
# model, samples and what is known about their tokens
NETWORKS = {
    "mlp": (mlp([8]), IMAGES),
    "cnn": (cnn([4], 3, 8), IMAGES),
    "lenet": (lenet(), IMAGES),
    "resnet": (resnet(8), IMAGES),
    "resnet, batch": (resnet(8, norm="batch"), IMAGES),
    "char_lstm": (char_lstm(4, 2, 8), *OF_TEXTS),
    "char_gru": (char_gru(4, 2, 8), *OF_TEXTS),
    "transformer": (transformer(1, 2, 8), *OF_TEXTS),
}
# How far its gradient is away, in roundings: further behind more layers, and behind the statistics
# of four samples.
ROUNDINGS = {"resnet": 16, "resnet, batch": 48}
WITH_BLOCKS = ["transformer", "resnet, batch"]


def network(name: str, **options):
    """A small network, and a batch for it of which one row is filling."""
    build, x, *tokens = NETWORKS[name]
    y = jnp.asarray(np.arange(5) % 3)
    batch = Batch(x=x, y=y, mask=jnp.arange(5) < 4, key=jax.random.key(1), step=jnp.int32(0))
    return build(x.shape[1:], 3, *tokens, **options), batch


def learned(net, batch, variables):
    """((loss, stats), gradient) of a batch."""
    learning = task(net, cross_entropy(), lambda lr: None, lambda lr, step: lr, 3)
    return jax.jit(learning.value_and_grad)(variables, batch)


def distance(one, other) -> float:
    """‖one − other‖ / ‖other‖ over all leaves."""
    flat = lambda tree: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
    return float(np.linalg.norm(flat(one) - flat(other)) / np.linalg.norm(flat(other)))


def types(tree) -> set:
    """The types of all leaves that are floats."""
    names = {np.asarray(leaf).dtype.name for leaf in jax.tree.leaves(tree)}
    return {name for name in names if "float" in name}


@pytest.mark.parametrize(
    "name",
    [name if name == "mlp" else pytest.param(name, marks=pytest.mark.long) for name in NETWORKS],
)
def test_bfloat16_is_near_float32_and_ends_in_float32(name):
    """Loss, gradient and statistics have float32's type, and are a few roundings away."""
    net, batch = network(name)
    variables = jax.jit(net.init)(jax.random.key(0))
    (loss, stats), gradient = learned(net, batch, variables)
    narrow = computing_in(net, "bfloat16")
    (narrow_loss, narrow_stats), narrow_gradient = learned(narrow, batch, variables)

    assert types([narrow_loss, narrow_stats, narrow_gradient]) == {"float32"}
    assert abs(narrow_loss - loss) < 4 * EPSILON * abs(loss)
    assert 0 < distance(narrow_gradient, gradient) < ROUNDINGS.get(name, 8) * EPSILON
    if jax.tree.leaves(stats):
        assert distance(narrow_stats, stats) < EPSILON


@pytest.mark.long
def test_a_product_in_bfloat16_is_numpys():
    """x W of rounded factors: their exact products summed in float32, and rounded once."""
    rng = np.random.default_rng(0)
    x, W = rng.normal(size=(40, 12)), rng.normal(size=(12, 5))
    net = computing_in(mlp([3])((12,), 5), "bfloat16")
    params = net.init(jax.random.key(0))["params"]
    params["layer0"] = {"W": jnp.asarray(np.eye(12, 3), jnp.float32), "b": jnp.zeros(3)}
    params["layer1"] = {"W": jnp.asarray(W[:3], jnp.float32), "b": jnp.zeros(5)}
    outputs, _ = net.apply({"params": params, "stats": {}}, jnp.asarray(x, jnp.float32))

    rounded = lambda a: np.asarray(a, jnp.bfloat16).astype(np.float64)
    expected = np.maximum(rounded(x)[:, :3], 0) @ rounded(W[:3])
    np.testing.assert_allclose(outputs, expected, rtol=EPSILON, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_BLOCKS)
def test_values_computed_again_are_the_same(name):
    net, batch = network(name)
    variables = jax.jit(net.init)(jax.random.key(0))
    kept = learned(net, batch, variables)
    again = learned(network(name, remat=True)[0], batch, variables)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    jax.tree.map(close, kept, again)
