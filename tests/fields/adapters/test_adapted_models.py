"""A model with an adapter starts as the plain model, and merging gives a plain model again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_adapter_products import ADAPTERS, KINDS

from fedsim.fields.adapters.adapted import adapted, merged
from fedsim.models import as_model, mlp, transformer
from fedsim.models.cnn import cnn
from fedsim.models.tokens import Tokens

RNG = np.random.default_rng(0)


def networks():
    """Models by name, and a batch of each."""
    tokens = RNG.integers(0, 11, (3, 5))
    images = RNG.normal(size=(3, 8, 8, 1)).astype(np.float32)
    return {
        "mlp": (mlp([7])((9,), 4), RNG.normal(size=(3, 9)).astype(np.float32)),
        "transformer": (transformer(1, 2, 8)((5,), 4, Tokens(11, True)), tokens),
        "cnn": (as_model(cnn([3], 3, 8)((8, 8, 1), 4)), images),
    }


PLACES = [(kind, name) for kind in ADAPTERS for name in ("mlp", "transformer", "cnn")]
PLACES.remove(("bottleneck", "cnn"))


@pytest.mark.long
@pytest.mark.parametrize(("kind", "name"), PLACES)
def test_the_adapted_model_starts_as_the_model(kind, name):
    """Bit for bit; `dora` to rounding."""
    net, x = networks()[name]
    key = jax.random.key(3)
    with_leaves = adapted(net, ADAPTERS[kind])
    plain, _ = net.apply(net.init(key), x, train=False)
    started, _ = with_leaves.apply(with_leaves.init(key), x, train=False)
    near = {"rtol": 1e-5, "atol": 1e-6} if kind == "dora" else {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(started, plain, **near)


@pytest.mark.long
def test_weights_of_one_shape_have_the_same_random_matrices():
    net, _ = networks()["transformer"]
    params = adapted(net, KINDS["vera"](4)).init(jax.random.key(1))["params"]
    mixed, wide = params["block0_mixed"]["W"], params["block0_wide"]["W"]
    assert mixed["vera_A"].shape == wide["vera_A"].shape == (8, 4)
    np.testing.assert_array_equal(mixed["vera_A"], wide["vera_A"])
    other = adapted(net, KINDS["vera"](4)).init(jax.random.key(2))["params"]
    np.testing.assert_array_equal(mixed["vera_B"], other["block0_mixed"]["W"]["vera_B"])


@pytest.mark.long
@pytest.mark.parametrize("every", [True, False])
def test_a_prompt_is_tokens_in_front(every):
    """Of a longer transformer with the same weights, whose first positions add nothing."""
    short = transformer(2, 2, 8)((5,), 4, Tokens(11, every))
    tall = transformer(2, 2, 8)((8,), 4, Tokens(11, every))
    key = jax.random.key(0)
    params = short.init(key)["params"]
    prompted = adapted(short, KINDS["prompt"](3)).init(key)
    first = RNG.integers(0, 11, 3)
    vectors = params["embedding"]["W"][first]
    positions = jnp.concatenate([jnp.zeros((3, 8)), params["positions"]["W"]])
    longer = {"params": {**params, "positions": {"W": positions}}, "stats": {}}

    x = jnp.asarray(RNG.integers(0, 11, (3, 5)))
    wide = jnp.concatenate([jnp.tile(first, (3, 1)), x], axis=1)
    given, _ = short.apply({"params": {**params, "prompt": vectors}, "stats": {}}, x)
    expected, _ = tall.apply(longer, wide)
    expected = expected[:, 3:] if every else expected
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-6)

    # It starts as embeddings of tokens.
    start = np.asarray(prompted["params"]["prompt"])
    rows = np.asarray(params["embedding"]["W"])
    assert all((rows == vector).all(1).any() for vector in start)


@pytest.mark.quick(4)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_merged_model_is_one_without_the_adapter_or_refused(kind):
    """Parameters are NumPy arrays, as `result.model(merged=True)` has them."""
    model, x = networks()["transformer" if kind == "prompt" else "mlp"]
    changed = KINDS[kind]()
    net = adapted(model, changed)
    start = net.init(jax.random.key(0))["params"]
    params = jax.tree.map(lambda leaf: np.asarray(leaf) + 0.1, start)
    if kind in ("bottleneck", "prompt"):
        with pytest.raises(ValueError, match="cannot be merged; leave merged out"):
            merged(params, changed)
        return
    plain = merged(params, changed)
    assert jax.tree.structure(plain) == jax.tree.structure(model.init(jax.random.key(0))["params"])
    got, _ = model.apply({"params": plain, "stats": {}}, x)
    expected, _ = net.apply({"params": params, "stats": {}}, x)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
