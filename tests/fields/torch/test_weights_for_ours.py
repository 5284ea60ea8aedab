"""Weights of torch are where our own networks start, by the names of layers."""

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import safetensors.torch
import yaml
from test_readme import block, pages
from torch import nn
from torch.nn import functional as F

import fedsim
from fedsim.assemble import build
from fedsim.errors import ScenarioError
from fedsim.scenario import read

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quickly_compiled")]

TOLERANCE = 1e-9
CLASSES = 4


class Block(nn.Module):
    """Two convolutions beside x, which is subsampled, with zero channels behind it."""

    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.stride = fan_out // fan_in
        self.zeros = fan_out - fan_in
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, self.stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(fan_out)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(fan_out)

    def forward(self, x):
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        return F.relu(h + F.pad(shortcut, (0, 0, 0, 0, 0, self.zeros)))


class ResNet8(nn.Module):
    """He et al.'s network for CIFAR with three blocks."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16))
        self.layer2 = nn.Sequential(Block(16, 32))
        self.layer3 = nn.Sequential(Block(32, 64))
        self.linear = nn.Linear(64, CLASSES)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return self.linear(self.layer3(self.layer2(self.layer1(h))).mean((2, 3)))


@pytest.fixture(scope="module")
def names(root):
    """Those of the page."""
    section = yaml.safe_load(block(pages(root)["docs/from_torch.md"], "torch_names"))["model"]
    return section["weights"]["names"]


@pytest.fixture(scope="module")
def net():
    """A network whose statistics are not those of a new one."""
    torch.manual_seed(0)
    net = ResNet8().double()
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
    data = fedsim.Arrays(images(16), np.arange(16) % CLASSES)
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


def test_layers_behind_flattened_images_are_refused(tmp_path):
    layers = [nn.Conv2d(3, 5, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
    net = nn.Sequential(*layers, nn.Linear(180, CLASSES))
    file = tmp_path / "start.pt"
    torch.save(net.state_dict(), file)
    cnn = {"kind": "cnn", "channels": [5], "kernel": 3, "hidden": 7}
    with pytest.raises(ScenarioError, match="dense layers that read flattened images"):
        started(file, {"0": "conv0", "4": "hidden"}, cnn)


def test_dense_layers_that_read_the_pixels_of_colour_images_are_refused(tmp_path):
    net = nn.Sequential(nn.Flatten(), nn.Linear(12 * 12 * 3, CLASSES))
    file = tmp_path / "start.pt"
    torch.save(net.state_dict(), file)
    with pytest.raises(ScenarioError, match="dense layers that read flattened images"):
        started(file, {"1": ""}, {"kind": "logistic"})


# What is changed in the names, and the refusal.
REFUSALS = {
    "a layer without a name": ({"linear": None}, "say which layer of the model 'linear' is"),
    "a layer that the model lacks": (
        {"linear": "first"},
        r"the layer 'first' of the model has no leaf for 'linear\.",
    ),
    "two layers for one": (
        {"layer1.0.*2": "block0_first"},
        r"'layer1.0.conv1.weight' and 'layer1.0.conv2.weight' are both 'block0_first.W'",
    ),
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
