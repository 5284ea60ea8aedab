"""Modules of torch are trained as torch itself trains them."""

import copy
from importlib.util import find_spec

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from foreign import loop, networks, others

import fedsim
from fedsim import tree

pytestmark = pytest.mark.long

TOLERANCE = 1e-9  # of the largest number of a leaf
NOTHING = 1e-6  # leaves without an effect, as an attention's bias of keys, are rounding errors

# network, its samples
NETWORKS = {
    "convolutions and batch norm": (networks.Cnn, "images"),
    "group norm, layer norm, a frozen kernel": (networks.Grouped, "images"),
    "residual blocks": (networks.ResNet8, "images"),
    "LSTM and RNN": (networks.Lstm, "tokens"),
    "GRU, both directions": (networks.Gru, "tokens"),
    "attention, tied weights, a label per token": (networks.Attention, "labelled tokens"),
    "torch's transformer block": (networks.Encoder, "tokens"),
    "BERT of transformers": (others.bert, "tokens"),
    "GPT-2 of transformers": (others.gpt2, "tokens"),
}


def samples(form):
    """Features as a module takes them, and labels."""
    rng = np.random.default_rng(0)
    n = sum(loop.SIZES)
    if form == "images":
        return rng.normal(size=(n, 3, 6, 6)), rng.integers(networks.CLASSES, size=n)
    x = rng.integers(networks.TOKENS, size=(n, networks.LENGTH))
    y = rng.integers(networks.CLASSES, size=n)
    return (x, (x * 5 + 1) % networks.TOKENS) if form == "labelled tokens" else (x, y)


def made(network):
    torch.manual_seed(1)
    return network().double()


def run(model, x, y):
    """The same two rounds as those of `loop`."""
    scenario = {
        "name": "by-hand",
        "rounds": 2,
        "seeds": [0],
        "data": {"kind": "supplied", "test": 0},
        "cohort": {"kind": "listed", "rounds": loop.COHORTS},
        "client": {"lr": loop.LR, "batch": loop.BATCH, "epochs": loop.EPOCHS, "shuffle": False},
        "numerics": {"dtype": "float64"},
    }
    client = np.repeat(np.arange(len(loop.SIZES)), loop.SIZES)
    vocabulary = networks.TOKENS if x.ndim == 2 else 0
    data = fedsim.Arrays(x=channels_last(x), y=y, client=client, vocabulary=vocabulary)
    return fedsim.run(scenario, data=data, model=model)


def channels_last(x):
    return np.moveaxis(x, 1, -1) if x.ndim == 4 else x


def leaves(values):
    return dict(zip(tree.leaf_names(values), jax.tree.leaves(values), strict=True))


@pytest.mark.parametrize("network, form", NETWORKS.values(), ids=NETWORKS)
def test_outputs_and_two_rounds_of_fedavg_are_those_of_a_loop_in_torch(network, form):
    if network.__module__ == others.__name__ and find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    net, (x, y) = made(network), samples(form)
    result = run(net, x, y)
    model = result.experiment.model
    with jax.enable_x64(True), torch.no_grad():
        outputs, _ = jax.jit(model.apply)(model.init(jax.random.key(0)), channels_last(x))
        expected = copy.deepcopy(net).eval()(torch.tensor(x))
    expected = getattr(expected, "logits", expected)
    np.testing.assert_allclose(outputs, expected, rtol=TOLERANCE, atol=TOLERANCE)

    expected = loop.fedavg(net, x, y)
    got = leaves(result.model())
    assert set(got) == {name for name, _ in net.named_parameters()}
    for name, value in got.items():
        largest = max(np.abs(expected[name]).max(), NOTHING)
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=TOLERANCE * largest)
    moved = result.variables()["stats"]
    for name, value in leaves(moved).items():
        largest = np.abs(expected[name]).max()
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=TOLERANCE * largest)
