"""The networks of the bench, as modules of torch, train as in torch's own loop."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("fedsim.tools.bench")

from conftest import if_whole
from foreign import bench, loop
from test_training import check

pytestmark = pytest.mark.long

CLASSES = 5
PHOTO = (16, 16, 3)  # pixels and colours
ICON = (8, 8, 3)
LENGTH = 10
VOCABULARY = 12


def of_images(shape, **section):
    """A network, and samples `[B, C, H, W]`."""
    rng = np.random.default_rng(0)
    n = sum(loop.SIZES)
    x = rng.normal(size=(n, shape[2], *shape[:2]))
    net = bench.of_images(shape, CLASSES, **section)
    return net, x, rng.integers(CLASSES, size=n)


def of_tokens(kind):
    """A network, and samples `[B, T]`."""
    rng = np.random.default_rng(0)
    n = sum(loop.SIZES)
    x = rng.integers(VOCABULARY, size=(n, LENGTH))
    net = bench.of_tokens(LENGTH, VOCABULARY, CLASSES, kind)
    return net, x, rng.integers(CLASSES, size=n)


NETWORKS = {
    "LeNet-5": lambda: of_images(PHOTO, kind="lenet"),
    "McMahan's CNN": lambda: of_images(PHOTO, kind="cnn", channels=[64, 64], hidden=[384, 192]),
    "ResNet-20, group norm": lambda: of_images(ICON, kind="resnet", depth=20),
    "ResNet-20, batch norm": lambda: of_images(ICON, kind="resnet", depth=20, norm="batch"),
    "ResNet-18, group norm": lambda: of_images(ICON, kind="resnet", depth=18),
    "LEAF's LSTM": lambda: of_tokens("char_lstm"),
    "transformer": lambda: of_tokens("transformer"),
}


def marked():
    """The networks; those that compile for minutes are played with `FEDSIM_WHOLE=1` alone."""
    cases = []
    for name, made in NETWORKS.items():
        is_slow = name.startswith("ResNet")
        cases.append(pytest.param(made, id=name, marks=if_whole if is_slow else ()))
    return cases


@pytest.mark.parametrize("made", marked())
def test_networks_of_the_bench_train_as_in_a_loop_in_torch(made):
    check(*made())
