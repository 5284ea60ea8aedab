"""Without torch, what needs it names the extra in one line; nothing here imports it."""

import sys

import pytest

from fedsim.assemble import build
from fedsim.errors import DirectoryError, ScenarioError
from fedsim.runs.export import exported
from fedsim.scenario import read

EXTRA = r"torch is not installed: pip install 'fedsim-jax\[torch\]'$"


@pytest.fixture(autouse=True)
def without(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


def scenario(**model):
    return {
        "name": "torch",
        "rounds": 1,
        "data": "digits",
        "model": {"kind": "torch", "path": "net.py", "name": "Net", **model},
    }


def test_a_scenario_with_a_module_of_torch_names_the_extra(tmp_path):
    file = tmp_path / "net.py"
    file.write_text("import torch\n")
    with pytest.raises(ScenarioError, match=f"^scenario: model: {EXTRA}"):
        build(read(scenario(path=str(file))))


def test_an_export_names_the_extra(tmp_path):
    with pytest.raises(DirectoryError, match=EXTRA):
        exported(tmp_path, None, "torch")


def test_weights_of_torch_name_the_extra(tmp_path):
    file = tmp_path / "start.pt"
    file.write_bytes(b"PK")
    with pytest.raises(ScenarioError, match=rf"model.weights: .*{EXTRA}"):
        build(read({**scenario(), "model": {"kind": "logistic", "weights": str(file)}}))
