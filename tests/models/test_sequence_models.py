"""Recurrent networks and the transformer: against plain NumPy and differences.

Sizes of the papers, causality, bits.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_models import plain_gru, plain_lstm, plain_recurrent, plain_transformer

from fedsim.models import Tokens, char_gru, char_lstm, transformer
from fedsim.models.recurrent import gru, gru_start, lstm, lstm_start

KEY = jax.random.key(3)
V, T, B = 7, 5, 3
TOKENS = np.random.default_rng(0).integers(0, V, (B, T)).astype(np.int32)
NUMBERS = np.random.default_rng(1).normal(size=(B, T, 4))
SMALL = {"lstm": char_lstm(3, 2, 5), "gru": char_gru(3, 2, 5), "transformer": transformer(2, 2, 6)}


def close(a, b, tolerance):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance), a, b
    )


def numbers(*shape):
    return np.random.default_rng(shape).normal(size=shape)


def made(name, every, numbers=False):
    """A model for small samples, variables unlike its start (whose biases are 0), and samples."""
    build = SMALL[name]
    model = build(NUMBERS.shape[1:], 4, None) if numbers else build((T,), 4, Tokens(V, every))
    variables = model.init(KEY)
    leaves, tree = jax.tree.flatten(variables["params"])
    rng = np.random.default_rng(5)
    params = tree.unflatten([leaf + 0.3 * rng.normal(size=leaf.shape) for leaf in leaves])
    return model, {"params": params, "stats": {}}, NUMBERS if numbers else TOKENS


# Values and gradients


@pytest.mark.parametrize(
    ("layer", "start", "plain"),
    [
        (lstm, lstm_start, plain_lstm),
        pytest.param(gru, gru_start, plain_gru, marks=pytest.mark.long),
    ],
)
def test_a_layer_is_plain_numpys(layer, start, plain):
    p = {
        name: numbers(*leaf.shape)
        for name, leaf in jax.eval_shape(lambda: start(KEY, 4, 5)).items()
    }
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
        close(model.head(variables, model.features(variables, jnp.asarray(x))), outputs, 1e-12)


@pytest.mark.long
@pytest.mark.parametrize(("every", "numbers"), [(True, False), (False, True)])
@pytest.mark.parametrize("name", SMALL)
def test_gradients_are_differences(name, every, numbers):
    """Of every leaf along a direction of its own, and of numbers that come in."""
    with jax.enable_x64(True):
        model, variables, x = made(name, every, numbers)
        loss = jax.jit(
            lambda params, x: jnp.sum(
                jnp.sin(model.apply({"params": params, "stats": {}}, x, train=True)[0])
            )
        )
        point = (variables["params"], x) if numbers else (variables["params"],)
        f = loss if numbers else lambda params: loss(params, x)
        gradient = jax.grad(f, tuple(range(len(point))))(*point)
        leaves, tree = jax.tree.flatten(point)
        rng, step = np.random.default_rng(2), 1e-6
        for i, (leaf, g) in enumerate(zip(leaves, jax.tree.leaves(gradient), strict=True)):
            direction = rng.normal(size=leaf.shape)
            ahead, behind = (
                f(*tree.unflatten([*leaves[:i], leaf + sign * step * direction, *leaves[i + 1 :]]))
                for sign in (1, -1)
            )
            assert float(jnp.sum(g * direction)) == pytest.approx(
                float(ahead - behind) / (2 * step), rel=1e-6, abs=1e-8
            )


# What they are


@pytest.mark.parametrize(
    ("build", "shape", "tokens", "outputs", "count"),
    [
        (char_lstm(), (80,), Tokens(80, False), 80, 817_872),  # LEAF: 80 characters
        (
            char_lstm(),
            (80,),
            Tokens(90, True),
            90,
            820_522,
        ),  # 86 characters and four marks, as TFF encodes them
        (char_lstm(3, 1, 5), (9, 4), None, 2, 4 * 5 * (4 + 5 + 1) + 2 * 6),  # no embedding
        (char_gru(), (80,), Tokens(80, False), 80, 619_216),
        (transformer(), (80,), Tokens(80, True), 80, 427_600),
        (
            transformer(1, 2, 4),
            (9, 3, 2),
            None,
            2,
            4 * 7 + 9 * 4 + 12 * 4**2 + 13 * 4 + 2 * 4 + 2 * 5,
        ),
    ],
)
def test_parameters(build, shape, tokens, outputs, count):
    params = jax.eval_shape(build(shape, outputs, tokens).init, KEY)["params"]
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == count


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: char_lstm()((64,), 10, None), "char_lstm needs sequences"),
        (lambda: transformer()((64,), 10, None), "transformer needs sequences"),
        (lambda: transformer(heads=3), "3 do not divide the width of 128"),
    ],
)
def test_refusals(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_no_token_changes_what_stands_before_it(name):
    model, variables, x = made(name, every=True)
    apply = jax.jit(lambda x: model.apply(variables, x)[0])
    outputs = apply(x)
    for t in range(1, T):
        other = x.copy()
        other[:, t] = (other[:, t] + 1) % V
        changed = apply(other)
        np.testing.assert_array_equal(changed[:, :t], outputs[:, :t])
        assert (jnp.abs(changed[:, t:] - outputs[:, t:]).max((1, 2)) > 0).all()


@pytest.mark.long
@pytest.mark.parametrize(("name", "products"), [("lstm", 2), ("gru", 2)])
def test_a_step_of_a_recurrent_layer_is_one_product(name, products):
    """The weights' gradient is computed after the backward loop, whoever's weights they are."""
    model = SMALL[name]((T,), 4, Tokens(V, False))
    params = jax.vmap(lambda key: model.init(key)["params"])(jax.random.split(KEY, 2))
    loss = lambda p, x: jnp.sum(model.apply({"params": p, "stats": {}}, x, train=True)[0])
    traced = jax.make_jaxpr(jax.vmap(jax.grad(loss)))(params, np.stack([TOKENS] * 2))
    loops = [
        str(equation.params["jaxpr"]).count("dot_general") for equation in _scans(traced.jaxpr)
    ]
    assert loops == [1] * (2 * products)


def _scans(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")
        ):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns") and equation.primitive.name != "scan":
                yield from _scans(inner)
