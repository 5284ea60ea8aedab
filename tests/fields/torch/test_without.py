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


@pytest.mark.parametrize(
    ("model", "where"),
    [
        ({"kind": "torch", "path": "FILE", "name": "Net"}, "^scenario: model: "),
        ({"kind": "logistic", "weights": "FILE"}, "model.weights: .*"),
    ],
    ids=["a module", "weights"],
)
def test_a_scenario_with_something_of_torch_names_the_extra(tmp_path, model, where):
    file = tmp_path / "of_torch.pt"
    file.write_bytes(b"PK")
    model = {key: str(file) if value == "FILE" else value for key, value in model.items()}
    with pytest.raises(ScenarioError, match=f"{where}{EXTRA}"):
        build(read({"name": "torch", "rounds": 1, "data": "digits", "model": model}))


def test_an_export_names_the_extra(tmp_path):
    with pytest.raises(DirectoryError, match=EXTRA):
        exported(tmp_path, None, "torch")
