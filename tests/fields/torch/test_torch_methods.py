"""Methods train a module of torch as they train our own network from the same start."""

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from foreign import loop
from test_training import TOLERANCE
from torch import nn

import fedsim
from fedsim.errors import ScenarioError
from fedsim.models import mlp

pytestmark = pytest.mark.long

FEATURES = (4, 5)
IMAGE = (8, 8, 3)
CLASSES = 3

# What asks a module for more than its gradient: names, memories, gradients of samples. Sections of
# a scenario, and those of our network where its leaves have other names.
METHODS = {
    "SCAFFOLD": ({"client": {"kind": "scaffold"}}, {}),
    "DP-SGD": ({"client": {"dp_sgd": {"clip": 0.5, "noise_multiplier": 0, "delta": 1e-3}}}, {}),
    "frozen layers": (
        {"model": {"freeze": ["1", "3.bias"]}},
        {"model": {"freeze": ["layer0", "layer1.b"]}},
    ),
    "FedRep": (
        {"client": {"kind": "fedrep", "personal": ["5"], "head_steps": 2}},
        {"client": {"kind": "fedrep", "head_steps": 2}},
    ),
    "Ditto": ({"client": {"kind": "ditto"}}, {}),
}


def scenario(sections):
    client = {"lr": 0.1, "batch": loop.BATCH, "epochs": loop.EPOCHS, **sections.get("client", {})}
    return {
        "name": "method",
        "rounds": 2,
        "seeds": [0],
        "data": {"kind": "supplied", "test": 0},
        "cohort": {"kind": "uniform", "size": 3},
        "numerics": {"dtype": "float64"},
        **sections,
        "client": client,
    }


def data(shape):
    rng = np.random.default_rng(0)
    n = sum(loop.SIZES)
    client = np.repeat(np.arange(len(loop.SIZES)), loop.SIZES)
    y = rng.integers(CLASSES, size=n)
    return fedsim.Arrays(x=rng.normal(size=(n, *shape)), y=y, client=client)


def module_of(params):
    """A module with the weights of our network."""
    layers = [nn.Flatten()]
    for leaves in params.values():
        linear = nn.Linear(*leaves["W"].shape)
        linear.weight.data = torch.tensor(np.array(leaves["W"].T))
        linear.bias.data = torch.tensor(np.array(leaves["b"]))
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("theirs, ours", METHODS.values(), ids=METHODS)
def test_a_method_trains_a_module_as_our_own_network(theirs, ours):
    """They have the same start, and are the same at the end."""
    client = 0 if theirs.get("client", {}).get("kind") in ("fedrep", "ditto") else None
    with jax.enable_x64(True):
        start = mlp([8, 6])(FEATURES, CLASSES).init(jax.random.key(0))["params"]
    net = module_of(start)
    own = {**theirs, **ours}
    own["model"] = {"kind": "mlp", "hidden": [8, 6], **own.get("model", {})}
    of_ours = fedsim.run(scenario(own), data=data(FEATURES), params=start)
    of_module = fedsim.run(scenario(theirs), data=data(FEATURES), model=net)

    expected = module_of(of_ours.model(client=client)).state_dict()
    begun = net.state_dict()
    got = of_module.torch(client=client).state_dict()
    assert any(not torch.equal(got[name], begun[name]) for name in got)
    for name, value in got.items():
        largest = max(float(expected[name].abs().max()), 1e-6)
        torch.testing.assert_close(value, expected[name], rtol=0, atol=TOLERANCE * largest)


def convolution(*between):
    torch.manual_seed(0)
    head = nn.Linear(144, CLASSES)
    return nn.Sequential(nn.Conv2d(3, 4, 3), *between, nn.Flatten(), head)


def normalised():
    return convolution(nn.BatchNorm2d(4))


def test_fedbn_keeps_the_normalisation_that_patterns_name():
    client = {"kind": "fedbn", "personal": ["1"]}
    result = fedsim.run(scenario({"client": client}), data=data(IMAGE), model=normalised())
    kept = result.state()["client"]["norm"]
    joined = result.clients["rounds_joined"] > 0
    assert kept["0"]["weight"] is None and kept["3"]["bias"] is None
    assert (kept["1"]["weight"][joined] != 1).any() and (result.model()["1"]["weight"] == 1).all()


def test_lora_adds_a_matrix_of_low_rank_to_frozen_weights():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(20, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    sections = {"model": {"adapter": {"kind": "lora", "rank": 2}}}
    result = fedsim.run(scenario(sections), data=data(FEATURES), model=net)
    merged = result.model(merged=True)
    moved = merged["1"]["weight"] - net[1].weight.detach().double().numpy()
    assert np.linalg.matrix_rank(moved, tol=1e-12) == 2
    np.testing.assert_array_equal(merged["1"]["bias"], net[1].bias.detach().double())


DP_SGD = {"clip": 0.5, "noise_multiplier": 1.0, "delta": 1e-3}
WIDTH = {"width": {"kind": "by_speed", "widths": [1, 0.5]}}
REFUSALS = {
    "sub-models, whose axes are not known": (convolution, {"client": WIDTH}, "parts are known of"),
    "an adapter of a kernel": (
        convolution,
        {"model": {"adapter": "lora"}},
        "weight is a kernel of",
    ),
    "FedBN without patterns": (normalised, {"client": {"kind": "fedbn"}}, "personal"),
    "a pattern that no leaf has": (convolution, {"model": {"freeze": ["layer0"]}}, "layer0"),
    "DP-SGD beside batch norm": (normalised, {"client": {"dp_sgd": DP_SGD}}, "see each other"),
}


@pytest.mark.parametrize("made, sections, reason", REFUSALS.values(), ids=REFUSALS)
def test_what_a_module_does_not_tell_is_refused_with_a_reason(made, sections, reason):
    with pytest.raises(ScenarioError, match=reason):
        fedsim.run(scenario(sections), data=data(IMAGE), model=made())
