"""What an adapter makes of a weight: products and gradients are those of the papers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import own_kinds_of

from fedsim.fields.adapters.adapted import adapted
from fedsim.fields.adapters.factors import LowRank
from fedsim.models import mlp
from fedsim.models.dense import product
from fedsim.models.sequences import positionwise

RNG = np.random.default_rng(0)
m, n, r = 9, 6, 3
KINDS = own_kinds_of("adapter")
GIVEN = {
    "bottleneck": [r],
    "dora": [r, 2 * r],
    "dual_lora": [r, 2 * r, 0.25],
    "ia3": [],
    "lora": [r, 2 * r],
    "vera": [r],
}
ADAPTERS = {kind: KINDS[kind](*given) for kind, given in GIVEN.items()}


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
def test_dropout_drops_inputs_of_a_while_training_alone():
    """At W = 0 and A B = 1/2: each number is 0 or doubled, in half of the cases."""
    net = mlp([200])((200,), 2)
    adapter = KINDS["lora"](rank=1, targets=["layer0"], dropout=0.5)
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
