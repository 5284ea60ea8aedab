"""Modules of torch are trained as torch itself trains them."""

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from foreign import loop, networks

import fedsim
from fedsim import tree

pytestmark = pytest.mark.long

TOLERANCE = 1e-9  # of the largest number of a leaf

NETWORKS = {
    "perceptron": (networks.Mlp, "images"),
    "convolutions and batch norm": (networks.Cnn, "images"),
    "group norm, layer norm, transposed": (networks.Grouped, "images"),
    "residual blocks": (networks.Resnet, "images"),
    "frozen kernel": (networks.Frozen, "images"),
    "LSTM": (networks.Lstm, "tokens"),
    "GRU, both directions": (networks.Gru, "tokens"),
    "attention, tied weights, a label per token": (networks.Attention, "labelled tokens"),
    "torch's transformer block": (networks.Encoder, "tokens"),
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


def run(model, x, y, **sections):
    """The same two rounds as those of `loop`."""
    scenario = {
        "name": "by-hand",
        "rounds": 2,
        "seeds": [0],
        "data": {"kind": "supplied", "test": 0},
        "cohort": {"kind": "listed", "rounds": loop.COHORTS},
        "client": {"lr": loop.LR, "batch": loop.BATCH, "epochs": loop.EPOCHS, "shuffle": False},
        "numerics": {"dtype": "float64"},
        **sections,
    }
    client = np.repeat(np.arange(len(loop.SIZES)), loop.SIZES)
    vocabulary = networks.TOKENS if x.ndim == 2 else 0
    x = np.moveaxis(x, 1, -1) if x.ndim == 4 else x
    data = fedsim.Arrays(x=x, y=y, client=client, vocabulary=vocabulary)
    return fedsim.run(scenario, data=data, model=model)


def leaves(values):
    return dict(zip(tree.leaf_names(values), jax.tree.leaves(values), strict=True))


@pytest.mark.parametrize("network, form", NETWORKS.values(), ids=NETWORKS)
def test_two_rounds_of_fedavg_are_those_of_a_loop_in_torch(network, form):
    net = made(network)
    x, y = samples(form)
    expected = loop.fedavg(net, x, y)
    result = run(net, x, y)
    got = leaves(result.model())
    tied = {"last.weight"} if network is networks.Attention else set()
    parameters = {name for name, _ in net.named_parameters(remove_duplicate=False)}
    assert set(got) == parameters - tied
    for name, value in got.items():
        largest = np.abs(expected[name]).max()
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=TOLERANCE * largest)
