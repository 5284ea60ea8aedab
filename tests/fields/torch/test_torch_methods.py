"""Methods train a module of torch as they train our own network from the same start."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("fedsim.tools.bench")

from conftest import if_whole
from foreign import bench, loop
from test_training import TOLERANCE

import fedsim
from fedsim.errors import ScenarioError

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quickly_compiled")]

FEATURES = (4, 5)
IMAGE = (8, 8, 3)
CLASSES = 3
MLP = {"kind": "mlp", "hidden": [8, 6]}
RESNET = {"kind": "resnet", "depth": 8, "norm": "batch"}
TOP_K = {"kind": "top_k", "density": 0.2}

# Sections of a scenario, and those of our network where its leaves have other names.
METHODS = {
    "SCAFFOLD": ({"client": {"kind": "scaffold"}}, {}),
    "FedProx": ({"client": {"kind": "fedprox", "mu": 0.5}}, {}),
    "FedAdam": ({"method": "fedadam"}, {}),
    "FedNova": ({"client": {"kind": "fednova"}}, {}),
    "FedDyn": ({"client": {"kind": "feddyn"}}, {}),
    "Krum": ({"server": [{"kind": "krum", "f": 0}]}, {}),
    "top-k with error feedback": ({"wire": [{"kind": "error_feedback", "codec": TOP_K}]}, {}),
    "DP-SGD": ({"client": {"dp_sgd": {"clip": 0.5, "noise_multiplier": 0, "delta": 1e-3}}}, {}),
    "frozen layers": (
        {"model": {"freeze": ["1", "3.bias"]}},
        {"model": {"freeze": ["layer0", "layer1.b"]}},
    ),
    "FedPer": ({"client": {"kind": "fedper", "personal": ["5"]}}, {"client": {"kind": "fedper"}}),
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


def compare(network, shape, ours, theirs, client=None):
    """Our network and a module of the same start are the same at the end."""
    start = bench.started(shape, CLASSES, **network)
    net = bench.module_of(start, shape, **network)
    own = {**theirs, **ours}
    own["model"] = {**network, **own.get("model", {})}
    of_ours = fedsim.run(scenario(own), data=data(shape), params=start["params"])
    of_module = fedsim.run(scenario(theirs), data=data(shape), model=net)

    expected = bench.module_of(of_ours.variables(client=client), shape, **network).state_dict()
    begun = net.state_dict()
    got = of_module.torch(client=client).state_dict()
    assert any(not torch.equal(got[name], begun[name]) for name in got)
    for name, value in got.items():
        if value.is_floating_point():
            largest = max(float(expected[name].abs().max()), 1e-6)
            torch.testing.assert_close(value, expected[name], rtol=0, atol=TOLERANCE * largest)


@pytest.mark.parametrize("theirs, ours", METHODS.values(), ids=METHODS)
def test_a_method_trains_a_module_as_our_own_network(theirs, ours):
    kind = theirs.get("client", {}).get("kind")
    client = 0 if kind in ("fedper", "fedrep", "ditto") else None
    compare(MLP, FEATURES, ours, theirs, client)


@if_whole
def test_fedbn_keeps_the_normalisation_that_patterns_name():
    theirs = {"client": {"kind": "fedbn", "personal": ["norm"]}}
    compare(RESNET, IMAGE, {"client": {"kind": "fedbn"}}, theirs, client=0)


def module():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(20, 8), torch.nn.Tanh(), torch.nn.Linear(8, CLASSES)
    )


def kernels():
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(3, 4, 3)
    return torch.nn.Sequential(convolution, torch.nn.Flatten(), torch.nn.Linear(144, CLASSES))


def test_lora_adds_a_matrix_of_low_rank_to_frozen_weights():
    net = module()
    sections = {"model": {"adapter": {"kind": "lora", "rank": 2}}}
    result = fedsim.run(scenario(sections), data=data(FEATURES), model=net)
    merged = result.model(merged=True)
    moved = merged["1"]["weight"] - net[1].weight.detach().double().numpy()
    assert np.linalg.matrix_rank(moved, tol=1e-12) == 2
    np.testing.assert_array_equal(merged["1"]["bias"], net[1].bias.detach().double())


WIDTH = {"kind": "by_speed", "widths": [1, 0.5]}
REFUSALS = {
    "sub-models, whose axes are not known": (
        module,
        {"client": {"width": WIDTH}},
        "parts are known of the models mlp, cnn and lenet",
    ),
    "an adapter of a kernel": (
        kernels,
        {"model": {"adapter": "lora"}},
        r"0\.weight is a kernel of another library's network",
    ),
    "FedBN without patterns": (
        lambda: bench.module_of(bench.started(IMAGE, CLASSES, **RESNET), IMAGE, **RESNET),
        {"client": {"kind": "fedbn"}},
        "personal",
    ),
    "a pattern that no leaf has": (module, {"model": {"freeze": ["layer0"]}}, "layer0"),
    "DP-SGD beside batch norm": (
        lambda: bench.module_of(bench.started(IMAGE, CLASSES, **RESNET), IMAGE, **RESNET),
        {"client": {"dp_sgd": {"clip": 0.5, "noise_multiplier": 1.0, "delta": 1e-3}}},
        "the samples of a batch see each other",
    ),
}


@pytest.mark.parametrize("made, sections, reason", REFUSALS.values(), ids=REFUSALS)
def test_what_a_module_does_not_tell_is_refused_with_a_reason(made, sections, reason):
    net = made()
    shape = FEATURES if made is module else IMAGE
    with pytest.raises(ScenarioError, match=reason):
        fedsim.run(scenario(sections), data=data(shape), model=net)
