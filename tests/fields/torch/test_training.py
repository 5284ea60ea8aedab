"""Modules of torch are trained as torch itself trains them."""

import copy
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from foreign import loop, networks, others

import fedsim
from fedsim import tree

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quickly_compiled")]

TOLERANCE = 1e-9  # of the largest number of a leaf
NOTHING = 1e-6  # leaves without an effect, as an attention's bias of keys, are rounding errors

# network, its samples
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
    "torchvision's ResNet-18": (others.resnet18, "photos"),
    "BERT of transformers": (others.bert, "tokens"),
    "GPT-2 of transformers": (others.gpt2, "tokens"),
}
# What else has to be installed.
LIBRARIES = {
    others.resnet18: "torchvision",
    others.bert: "transformers",
    others.gpt2: "transformers",
}


SIDES = {"images": 6, "photos": 64}  # pixels


def samples(form):
    """Features as a module takes them, and labels."""
    rng = np.random.default_rng(0)
    n = sum(loop.SIZES)
    if form in SIDES:
        side = SIDES[form]
        return rng.normal(size=(n, 3, side, side)), rng.integers(networks.CLASSES, size=n)
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
    data = fedsim.Arrays(x=channels_last(x), y=y, client=client, vocabulary=vocabulary)
    return fedsim.run(scenario, data=data, model=model)


def channels_last(x):
    return np.moveaxis(x, 1, -1) if x.ndim == 4 else x


def leaves(values):
    return dict(zip(tree.leaf_names(values), jax.tree.leaves(values), strict=True))


def check(net, x, y):
    """The initial loss and all parameters after two rounds are those of the loop."""
    result = run(net, x, y)
    with jax.enable_x64(True):
        for train in (False, True):
            got = initial_loss(result.experiment.model, x, y, train)
            with torch.no_grad():
                expected = loop.loss_of(
                    copy.deepcopy(net).train(train), torch.tensor(x), torch.tensor(y)
                )
            np.testing.assert_allclose(got, expected, rtol=TOLERANCE)

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


def initial_loss(model, x, y, train):
    """The mean cross-entropy of a model's start on all samples."""
    x = channels_last(x)

    @jax.jit
    def loss(x, y):
        outputs, _ = model.apply(model.init(jax.random.key(0)), x, train=train)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(outputs), y[..., None], -1)
        return -jnp.mean(chosen)

    return loss(x, y)


@pytest.mark.parametrize("network, form", NETWORKS.values(), ids=NETWORKS)
def test_initial_loss_and_two_rounds_of_fedavg_are_those_of_a_loop_in_torch(network, form):
    library = LIBRARIES.get(network, "torch")
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    check(made(network), *samples(form))
