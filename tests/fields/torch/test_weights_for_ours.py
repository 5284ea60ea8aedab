"""Weights of torch are where our own networks start, by the names of layers."""

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import safetensors.torch
import yaml
from foreign import networks
from test_readme import block, pages
from torch import nn

import fedsim
from fedsim.assemble import build
from fedsim.errors import ScenarioError
from fedsim.scenario import read

pytestmark = pytest.mark.long

TOLERANCE = 1e-9


@pytest.fixture(scope="module")
def names(root):
    """Those of the page."""
    section = yaml.safe_load(block(pages(root)["docs/from_torch.md"], "torch_names"))["model"]
    return section["weights"]["names"]


@pytest.fixture(scope="module")
def net():
    """A network whose statistics are not those of a new one."""
    torch.manual_seed(0)
    net = networks.ResNet8().double()
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias)
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 1.5)
    return net


def images(n):
    return np.random.default_rng(0).normal(size=(n, 12, 12, 3))


RESNET = {"kind": "resnet", "depth": 8, "norm": "batch"}


def started(file, names, network=RESNET):
    """Our network with the weights of a file."""
    scenario = {
        "name": "start",
        "rounds": 1,
        "data": {"kind": "supplied", "clients": 2, "test": 0},
        "model": {**network, "weights": {"path": str(file), "names": names}},
        "client": {"drop_last": True, "batch": 4},
        "numerics": {"dtype": "float64"},
    }
    data = fedsim.Arrays(images(16), np.arange(16) % networks.CLASSES)
    return build(read(scenario), data=data).model


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_our_network_has_the_outputs_of_torch(net, names, tmp_path, ending):
    file = tmp_path / f"start.{ending}"
    save = torch.save if ending == "pt" else safetensors.torch.save_file
    save(net.state_dict(), file)
    x = images(5)
    with torch.no_grad():
        expected = net.eval()(torch.tensor(np.moveaxis(x, -1, 1)))
    with jax.enable_x64(True):
        model = started(file, names)
        outputs, _ = jax.jit(model.apply)(model.init(jax.random.key(0)), x)
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=TOLERANCE)


CNN = {"kind": "cnn", "channels": [5], "kernel": 3, "hidden": 7}
FLATTENING = {
    "behind convolutions": ([nn.Conv2d(3, 5, 3), nn.Flatten()], {"0": "conv0", "2": "hidden"}, CNN),
    "of colour images": ([nn.Flatten()], {"1": ""}, {"kind": "logistic"}),
}


@pytest.mark.parametrize("layers, names, network", FLATTENING.values(), ids=FLATTENING)
def test_dense_layers_that_read_flattened_images_are_refused(tmp_path, layers, names, network):
    net = nn.Sequential(*layers, nn.Linear(12 * 12 * 3, networks.CLASSES))
    file = tmp_path / "start.pt"
    torch.save(net.state_dict(), file)
    with pytest.raises(ScenarioError, match="dense layers that read flattened images"):
        started(file, names, network)


# What is changed in the names, and the refusal.
REFUSALS = {
    "a layer without a name": ({"linear": None}, "say which layer of the model 'linear' is"),
    "a layer that the model lacks": ({"linear": "first"}, "'first' of the model has no leaf for"),
    "two layers for one": ({"layer1.0.*2": "block0_first"}, "conv2.weight' are both 'block0_first"),
    "a layer of another shape": (
        {"layer2.0.*1": "block2_first", "layer3.0.*1": "block1_first"},
        r"block1_first.W is \[3, 3, 32, 64\], and that of the model is \[3, 3, 16, 32\]",
    ),
}


@pytest.mark.parametrize("changes, line", REFUSALS.values(), ids=REFUSALS)
def test_names_that_do_not_fit_are_refused(net, names, tmp_path, changes, line):
    file = tmp_path / "start.pt"
    torch.save(net.state_dict(), file)
    changed = {layer: ours for layer, ours in {**names, **changes}.items() if ours}
    with jax.enable_x64(True), pytest.raises(ScenarioError, match=line):
        started(file, changed)
