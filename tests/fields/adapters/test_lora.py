"""LoRA: low-rank matrices next to frozen weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim import tree
from fedsim.clients import sgd
from fedsim.errors import ScenarioError
from fedsim.fields.adapters.adapted import adapted
from fedsim.fields.adapters.factors import LowRank
from fedsim.fields.adapters.lora import lora
from fedsim.models import as_model, mlp, transformer
from fedsim.models.cnn import cnn
from fedsim.models.dense import product
from fedsim.models.sequences import positionwise
from fedsim.models.tokens import Tokens


def written(**model) -> dict:
    return {
        "name": "lora",
        "rounds": 2,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 8},
        "model": {"kind": "mlp", "hidden": [6], **model},
        "cohort": {"kind": "uniform", "size": 4},
        "client": {"lr": 0.1, "batch": 8},
    }


def networks():
    """Models by name, and a batch of each."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 11, (3, 5))
    images = rng.normal(size=(3, 8, 8, 1)).astype(np.float32)
    return {
        "mlp": (mlp([7])((9,), 4), rng.normal(size=(3, 9)).astype(np.float32)),
        "transformer": (transformer(1, 2, 8)((5,), 4, Tokens(11, False)), tokens),
        "cnn": (as_model(cnn([3], 3, 8)((8, 8, 1), 4)), images),
    }


@pytest.mark.parametrize("name", ["mlp", pytest.param("transformer", marks=pytest.mark.long)])
def test_the_adapted_model_starts_as_the_model(name):
    """Bit for bit, and its base has the values that the model starts with under the same key."""
    net, x = networks()[name]
    low_rank = adapted(net, lora(rank=2, alpha=6.0))
    key = jax.random.key(3)
    plain, _ = net.apply(net.init(key), x, train=False)
    variables = low_rank.init(key)
    started, _ = low_rank.apply(variables, x, train=False)
    np.testing.assert_array_equal(plain, started)
    names = tree.leaf_names(variables["params"])
    assert all(
        name.removesuffix("lora_A") + "lora_B" in names for name in names if "lora_A" in name
    )
    assert not any("embedding" in name or "positions" in name for name in names if "lora" in name)


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
def test_a_run_sends_the_factors_alone_and_leaves_the_base():
    result = fedsim.run(written(adapter={"kind": "lora", "rank": 3, "alpha": 6}))
    start = result.experiment.shared[0]
    params = result.model()
    for layer in ("layer0", "layer1"):
        base = start["frozen"][layer]["W"]["base"]
        np.testing.assert_array_equal(params[layer]["W"]["base"], base)
        assert np.abs(params[layer]["W"]["lora_B"]).max() > 0

    # Two rounds of four clients, 4 bytes a number: r (m + n) of [20, 6] and of [6, 10].
    numbers = 3 * (20 + 6) + 3 * (6 + 10)
    last = result.rounds.iloc[-1]
    assert last["bytes_up"] == last["bytes_down"] == 2 * 4 * 4 * numbers


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


@pytest.mark.long
def test_at_full_rank_a_run_comes_where_full_training_comes():
    """Least squares: with rank min(m, n), A B reaches the optimum of W."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(64, 4))
    y = x @ rng.normal(size=(4, 3))
    data = fedsim.Arrays(x, y, client=np.repeat(np.arange(4), 16))
    scenario = {
        "name": "full_rank",
        "rounds": 400,
        "data": {"partition": "natural"},
        "model": {"kind": "linear", "bias": False, "adapter": {"kind": "lora", "rank": 3}},
        "client": {"lr": 0.1, "batch": "full", "steps": 2},
        "evaluate": {"every": 400},
        "numerics": {"dtype": "float64"},
    }
    params = fedsim.run(scenario, data=data).model()["W"]
    optimum = np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(params["lora_A"] @ params["lora_B"], optimum, atol=1e-8)


@pytest.mark.long
def test_a_kernel_is_the_matrix_of_its_other_axes():
    net, x = networks()["cnn"]
    low_rank = adapted(net, lora(rank=2))
    variables = low_rank.init(jax.random.key(0))
    for name, leaf in zip(
        tree.leaf_names(variables["params"]), jax.tree.leaves(variables["params"]), strict=True
    ):
        if name.endswith("lora_A"):
            assert leaf.ndim == 2
    outputs, _ = low_rank.apply(variables, x, train=False)
    plain, _ = net.apply(net.init(jax.random.key(0)), x, train=False)
    np.testing.assert_array_equal(outputs, plain)


@pytest.mark.parametrize(
    ("adapter", "expected"),
    [
        ({"targets": ["layr0"]}, "adapter.targets: no leaf is named 'layr0'; did you mean"),
        ({"targets": ["b"]}, "adapter.targets: none of b is a matrix"),
        ({"rank": 7}, "adapter.rank: 7 is more than min(m, n) of layer0.W [20, 6]"),
    ],
)
def test_targets_and_ranks_that_do_not_fit_are_refused(adapter, expected):
    with pytest.raises(ScenarioError) as caught:
        fedsim.run(written(adapter={"kind": "lora", **adapter}))
    assert expected in str(caught.value)
