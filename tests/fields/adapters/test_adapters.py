"""Adapters: what they compute, where they start, what they send."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import foretold
from conftest import some

import fedsim
from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.fields.adapters.adapted import adapted, merged
from fedsim.fields.adapters.bottleneck import bottleneck
from fedsim.fields.adapters.dora import dora
from fedsim.fields.adapters.dual_lora import dual_lora
from fedsim.fields.adapters.factors import LowRank
from fedsim.fields.adapters.ia3 import ia3
from fedsim.fields.adapters.lora import lora
from fedsim.fields.adapters.prompt import prompt
from fedsim.fields.adapters.vera import vera
from fedsim.models import as_model, mlp, transformer
from fedsim.models.cnn import cnn
from fedsim.models.dense import product
from fedsim.models.sequences import positionwise
from fedsim.models.tokens import Tokens

RNG = np.random.default_rng(0)
m, n, r = 9, 6, 3


def networks():
    """Models by name, and a batch of each."""
    tokens = RNG.integers(0, 11, (3, 5))
    images = RNG.normal(size=(3, 8, 8, 1)).astype(np.float32)
    return {
        "mlp": (mlp([7])((9,), 4), RNG.normal(size=(3, 9)).astype(np.float32)),
        "transformer": (transformer(1, 2, 8)((5,), 4, Tokens(11, True)), tokens),
        "cnn": (as_model(cnn([3], 3, 8)((8, 8, 1), 4)), images),
    }


ADAPTERS = {
    "bottleneck": bottleneck(r),
    "dora": dora(r, 2 * r),
    "dual_lora": dual_lora(r, 2 * r, 0.25),
    "ia3": ia3(),
    "lora": lora(r, 2 * r),
    "vera": vera(r),
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


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def by_hand(kind: str, x, W, p) -> np.ndarray:
    """What becomes of x W, in NumPy."""
    if kind == "dora":
        V = W + 2 * p["lora_A"] @ p["lora_B"]
        return x @ (V * p["dora_m"] / np.linalg.norm(V, axis=0))
    if kind == "dual_lora":
        moved = 0.75 * p["lora_A"] @ p["lora_B"] + 0.25 * p["local_A"] @ p["local_B"]
        return x @ (W + 2 * moved)
    if kind == "ia3":
        return x @ W @ np.diag(p["ia3_l"])
    if kind == "lora":
        return x @ (W + 2 * p["lora_A"] @ p["lora_B"])
    if kind == "vera":
        moved = p["vera_A"] @ np.diag(p["vera_d"]) @ p["vera_B"] @ np.diag(p["vera_b"])
        return x @ (W + moved)
    h = x @ W
    return h + gelu(h @ p["adapter_D"] + p["adapter_d"]) @ p["adapter_U"] + p["adapter_u"]


@pytest.mark.quick(3)
@pytest.mark.parametrize("kind", ADAPTERS)
def test_products_are_those_of_the_papers(kind):
    adapter = ADAPTERS[kind]
    with jax.enable_x64(True):
        W = jnp.asarray(RNG.normal(size=(m, n)))
        x = jnp.asarray(RNG.normal(size=(4, m)))
        leaves = adapter.init(jax.random.key(0), "W", W)
        moved = {name: leaf + RNG.normal(size=leaf.shape) for name, leaf in leaves.items()}
        expected = by_hand(kind, x, W, jax.tree.map(np.asarray, moved))
        factored = adapter.apply(W, moved, factored=True, key=None)
        np.testing.assert_allclose(product(x, factored), expected, rtol=1e-12, atol=1e-12)
        if not adapter.factored_only:
            merged = adapter.apply(W, moved, factored=False, key=None)
            np.testing.assert_allclose(x @ merged, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.long
def test_factors_give_what_the_adapted_weight_gives_at_every_position():
    """x W + s (x A) B and its gradients, as those of x (W + s A B)."""
    with jax.enable_x64(True):
        W, A, B = (jnp.asarray(RNG.normal(size=shape)) for shape in [(5, 4), (5, 2), (2, 4)])
        x = jnp.asarray(RNG.normal(size=(3, 5)))

        def at_positions(x, A, B):
            layer = {"W": LowRank(W, A, B, jnp.asarray(1.5)), "b": jnp.zeros(4)}
            return jnp.sin(positionwise(layer, x[:, None])).sum()

        def merged(x, A, B):
            return jnp.sin(x @ (W + 1.5 * A @ B)).sum()

        given, expected = (
            jax.value_and_grad(f, (0, 1, 2))(x, A, B) for f in (at_positions, merged)
        )
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        jax.tree.map(close, given, expected)


@pytest.mark.long
def test_the_lengths_of_dora_are_constants_in_the_gradient():
    """The gradient of B is that of x V diag(c) with c = m/‖V‖ held fixed (equation 11)."""
    adapter = ADAPTERS["dora"]
    with jax.enable_x64(True):
        W = jnp.asarray(RNG.normal(size=(m, n)))
        x = jnp.asarray(RNG.normal(size=(4, m)))
        p = adapter.init(jax.random.key(0), "W", W)
        p = {name: leaf + 0.1 for name, leaf in p.items()}
        V = W + 2 * p["lora_A"] @ p["lora_B"]
        c = p["dora_m"] / jnp.linalg.norm(V, axis=0)

        def adapted_loss(B):
            weight = adapter.apply(W, {**p, "lora_B": B}, factored=True, key=None)
            return jnp.sum(jnp.sin(product(x, weight)))

        def fixed_loss(B):
            return jnp.sum(jnp.sin(x @ ((W + 2 * p["lora_A"] @ B) * c)))

        given, expected = (jax.grad(f)(p["lora_B"]) for f in (adapted_loss, fixed_loss))
        np.testing.assert_allclose(given, expected, rtol=1e-11)


@pytest.mark.long
def test_weights_of_one_shape_have_the_same_random_matrices():
    net, _ = networks()["transformer"]
    params = adapted(net, vera(4)).init(jax.random.key(1))["params"]
    mixed, wide = params["block0_mixed"]["W"], params["block0_wide"]["W"]
    assert mixed["vera_A"].shape == wide["vera_A"].shape == (8, 4)
    np.testing.assert_array_equal(mixed["vera_A"], wide["vera_A"])
    other = adapted(net, vera(4)).init(jax.random.key(2))["params"]
    np.testing.assert_array_equal(mixed["vera_B"], other["block0_mixed"]["W"]["vera_B"])


@pytest.mark.long
def test_dropout_drops_inputs_of_a_while_training_alone():
    """At W = 0 and A B = 1/2: each number is 0 or doubled, in half of the cases."""
    net = mlp([200])((200,), 2)
    adapter = lora(rank=1, targets=["layer0"], dropout=0.5)
    W = jnp.zeros((200, 1))
    leaves = {"lora_A": jnp.ones((200, 1)), "lora_B": jnp.ones((1, 1))}
    x = jnp.eye(200)
    kept = product(x, adapter.apply(W, leaves, factored=True, key=jax.random.key(0)))
    assert set(np.unique(kept)) == {0.0, 2.0}
    assert 70 < np.count_nonzero(kept) < 130
    scored = product(x, adapter.apply(W, leaves, factored=True, key=None))
    assert set(np.unique(scored)) == {1.0}

    dropping = adapted(net, adapter)
    variables = jax.tree.map(lambda leaf: leaf + 0.1, dropping.init(jax.random.key(0)))
    apply = lambda seed, train: np.asarray(
        dropping.apply(variables, x, key=jax.random.key(seed), train=train)[0]
    )
    assert (apply(1, False) == apply(2, False)).all() and (apply(1, True) != apply(2, True)).any()


@pytest.mark.long
@pytest.mark.parametrize("every", [True, False])
def test_a_prompt_is_tokens_in_front(every):
    """Of a longer transformer with the same weights, whose first positions add nothing."""
    short = transformer(2, 2, 8)((5,), 4, Tokens(11, every))
    tall = transformer(2, 2, 8)((8,), 4, Tokens(11, every))
    key = jax.random.key(0)
    params = short.init(key)["params"]
    prompted = adapted(short, prompt(3)).init(key)
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
@pytest.mark.parametrize("kind", sorted(FAMILIES["adapter"]))
def test_a_merged_model_is_one_without_the_adapter_or_refused(kind):
    """Parameters are NumPy arrays, as `result.model(merged=True)` has them."""
    factory = FAMILIES["adapter"][kind]
    model, x = networks()["transformer" if kind == "prompt" else "mlp"]
    changed = factory()
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


# --------------------------------------------------------------------------------------- the runs


def written(adapter, **sections) -> dict:
    return {
        "name": "adapters",
        "rounds": 2,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 8},
        "model": {"kind": "mlp", "hidden": [6], "adapter": adapter},
        "cohort": {"kind": "uniform", "size": 4},
        "client": {"lr": 0.1, "batch": 8},
        **sections,
    }


# An adapter of [20, 6] and [6, 10], what is frozen besides -> how many numbers travel
SENT = [
    ({"kind": "lora", "rank": 3}, ["lora_A"], 3 * 6 + 3 * 10),  # FFA-LoRA
    ("lora", [], 4 * 26 + 4 * 16),
    ("dora", [], (4 * 26 + 6) + (4 * 16 + 10)),
    ("ia3", [], 6 + 10),
    ("vera", [], (64 + 6) + (64 + 10)),
    ("bottleneck", [], (2 * 6 * 8 + 6 + 8) + (2 * 10 * 8 + 10 + 8)),
    ("bitfit", [], 6 + 10),
]


@pytest.mark.long
def test_an_adapter_sends_so_many_numbers():
    for adapter, frozen, numbers in some(SENT, 4):
        scenario = written(adapter)
        scenario["model"]["freeze"] = frozen
        told = foretold(scenario)
        assert told["parameters_sent"] == told["parameters_trained"] == numbers, adapter
        assert told["bytes_up_a_round"] == told["bytes_down_a_round"] == 4 * 4 * numbers, adapter

    scenario = written(None)
    scenario["data"]["shape"] = [4, 5]
    prompted = {"adapter": {"kind": "prompt", "tokens": 3}}
    scenario["model"] = {"kind": "transformer", "layers": 1, "heads": 1, "width": 4, **prompted}
    told = foretold(scenario)
    assert told["parameters_sent"] == told["parameters_trained"] == 3 * 4


@pytest.mark.parametrize(
    ("adapter", "users_model", "expected"),
    [
        ("prompt", False, "prompt is for a transformer"),
        ("bitfit", True, "every leaf is frozen"),
        ("bottleneck", True, "not W"),
        ({"kind": "lora", "dropout": 0.1}, True, "lora without dropout"),
        ({"kind": "dora", "rank": 7}, False, "7 is more than min(m, n) of layer0.W [20, 6]"),
        ({"kind": "lora", "targets": ["b"]}, False, "adapter.targets: none of b is a matrix"),
        ({"kind": "ia3", "targets": ["layr0"]}, False, "no leaf is named 'layr0'; did you mean"),
    ],
)
def test_models_that_do_not_fit_are_refused(adapter, users_model, expected):
    scenario = written(adapter)
    users = (lambda key: {"W": jnp.zeros((20, 10))}, lambda params, x: x @ params["W"])
    with pytest.raises(ScenarioError, match="model") as caught:
        fedsim.run(scenario, model=users if users_model else None)
    assert expected in str(caught.value)
