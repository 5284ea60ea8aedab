"""Recurrent networks and the transformer: against plain NumPy and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from plain_models import plain_gru, plain_lstm, plain_recurrent, plain_transformer
from test_models import KEY, close

from fedsim.models import Tokens, char_gru, char_lstm, transformer
from fedsim.models.recurrent import gru, gru_start, lstm, lstm_start

V, T, B = 7, 5, 3
TOKENS = np.random.default_rng(0).integers(0, V, (B, T)).astype(np.int32)
NUMBERS = np.random.default_rng(1).normal(size=(B, T, 4))
SMALL = {"lstm": char_lstm(3, 2, 5), "gru": char_gru(3, 2, 5), "transformer": transformer(2, 2, 6)}


def numbers(*shape):
    return np.random.default_rng(shape).normal(size=shape)


def made(name, every, numbers=False):
    """A model for small samples, variables unlike its start (whose biases are 0), and samples."""
    build = SMALL[name]
    model = build(NUMBERS.shape[1:], 4, None) if numbers else build((T,), 4, Tokens(V, every))
    variables = jax.jit(model.init)(KEY)
    leaves, tree = jax.tree.flatten(variables["params"])
    rng = np.random.default_rng(5)
    params = tree.unflatten([leaf + 0.3 * rng.normal(size=leaf.shape) for leaf in leaves])
    return model, {"params": params, "stats": {}}, NUMBERS if numbers else TOKENS


@pytest.mark.parametrize(
    ("layer", "start", "plain"),
    [
        (lstm, lstm_start, plain_lstm),
        pytest.param(gru, gru_start, plain_gru, marks=pytest.mark.long),
    ],
)
def test_a_layer_is_plain_numpys(layer, start, plain):
    shapes = jax.eval_shape(lambda: start(KEY, 4, 5))
    p = {name: numbers(*leaf.shape) for name, leaf in shapes.items()}
    x = numbers(3, 2, 4)
    close(jax.jit(layer)(p, x.astype(np.float32)), plain(p, x), 1e-5)


@pytest.mark.long
@pytest.mark.parametrize(("every", "numbers"), [(True, False), (False, False), (False, True)])
@pytest.mark.parametrize("name", SMALL)
def test_outputs_are_those_of_plain_numpy(name, every, numbers):
    with jax.enable_x64(True):
        model, variables, x = made(name, every, numbers)
        outputs, _ = jax.jit(model.apply)(variables, jnp.asarray(x))
        params = jax.tree.map(np.asarray, variables["params"])
        if name == "transformer":
            expected = plain_transformer(params, x, causal=every)
        else:
            expected = plain_recurrent({"lstm": plain_lstm, "gru": plain_gru}[name], params, x)
        assert outputs.dtype == jnp.float64
        close(outputs, expected if every else expected[:, -1], 1e-12)
        assert model.head is not None and model.features is not None
        features = jax.jit(model.features)(variables, jnp.asarray(x))
        close(jax.jit(model.head)(variables, features), outputs, 1e-12)


@pytest.mark.long
@pytest.mark.parametrize(("every", "numbers"), [(True, False), (False, True)])
@pytest.mark.parametrize("name", SMALL)
def test_gradients_are_differences(name, every, numbers):
    """Of every leaf along a direction of its own, and of numbers that come in."""
    with jax.enable_x64(True):
        model, variables, x = made(name, every, numbers)
        point = [variables["params"], x] if numbers else [variables["params"]]
        leaves, structure = jax.tree.flatten(point)

        @jax.jit
        def loss(leaves):
            params, *given = structure.unflatten(leaves)
            seen = {"params": params, "stats": {}}
            return jnp.sum(jnp.sin(model.apply(seen, *(given or [x]), train=True)[0]))

        rng, step = np.random.default_rng(2), 1e-6
        for i, g in enumerate(jax.grad(loss)(leaves)):
            direction = rng.normal(size=g.shape)
            ahead = loss([*leaves[:i], leaves[i] + step * direction, *leaves[i + 1 :]])
            behind = loss([*leaves[:i], leaves[i] - step * direction, *leaves[i + 1 :]])
            slope = float(ahead - behind) / (2 * step)
            assert float(jnp.sum(g * direction)) == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.long
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_a_step_of_a_recurrent_layer_is_one_product(name):
    """The weights' gradient is computed after the backward loop, whoever's weights they are."""
    model = SMALL[name]((T,), 4, Tokens(V, False))
    params = jax.vmap(lambda key: model.init(key)["params"])(jax.random.split(KEY, 2))
    loss = lambda p, x: jnp.sum(model.apply({"params": p, "stats": {}}, x, train=True)[0])
    traced = jax.make_jaxpr(jax.vmap(jax.grad(loss)))(params, np.stack([TOKENS] * 2))
    loops = [str(scan.params["jaxpr"]).count("dot_general") for scan in scans(traced.jaxpr)]
    assert loops == [1, 1] * 2  # of two layers, forwards and backwards


def scans(jaxpr):
    """The loops of a program, outside of other loops."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation
            continue
        for inner in jaxprs_in_params(equation.params):
            yield from scans(inner)
