"""`fedsim new --from-torch` writes a scenario that runs, and says what the module takes."""

import sys

import pytest
import yaml

torch = pytest.importorskip("torch")

import fedsim
from fedsim.cli import main
from fedsim.scenario import plugins, read

pytestmark = pytest.mark.long

NETS = """
import torch
from torch import nn

def images(width=4, side=32):
    pixels = (side - 2) ** 2
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.Flatten(), nn.Linear(pixels * width, 10))

def flowers():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

def measures():
    return nn.Sequential(nn.Linear(10, 1))

def pixels():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

def characters():
    return nn.Sequential(nn.Embedding(30, 4), nn.Linear(4, 30))

def sentences():
    return nn.Sequential(nn.Embedding(30, 4), nn.Flatten(), nn.Linear(4 * 80, 2))

def two_images():
    return nn.Bilinear(3, 3, 2)

def nothing():
    return {}
"""
# What is made, what is said of it, and the kind of data.
MADE = {
    "a usual side": ("images(width=2)", "images [32, 32, 3], 10 outputs", "gaussian_blobs"),
    "an unusual side": ("images(side=19)", "images [19, 19, 3], 10 outputs", "gaussian_blobs"),
    "a set that comes with fedsim": ("flowers", "numbers [4], 3 outputs", "iris"),
    "targets that are numbers": ("measures", "numbers [10], 1 outputs", "diabetes"),
    "images that are flattened": ("pixels", "images [8, 8, 1], 10 outputs", "digits"),
    "tokens": ("characters", "tokens [80] below 30, 30 outputs per token", "shakespeare_shaped"),
    "no such data here": ("sentences", "tokens [80] below 30, 2 outputs", "npz"),
    "no shape that fits": ("two_images", "tried; it goes from Bilinear(in1_features=3", "npz"),
}
REFUSALS = {
    "no name": ("nets.py", "write FILE.py:NAME, as net.py:Net"),
    "a name that the file does not have": ("nets.py:Nothing", "no class or function 'Nothing'"),
    "no module": ("nets.py:nothing", "nothing makes a dict, no torch module"),
    "arguments that it does not take": ("nets.py:flowers(n=3)", "flowers is not made: TypeError"),
    "no such file": ("other.py:Net", "there is no such file"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a file of networks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(NETS)
    yield tmp_path
    plugins.ENABLED.clear()
    for name in [name for name in sys.modules if name.startswith(plugins.PREFIX)]:
        del sys.modules[name]


def typed(*words):
    """The exit code of a command line."""
    try:
        main(["new", *words])
    except SystemExit as end:
        return end.code or 0
    return 0


@pytest.mark.parametrize("name, takes, kind", MADE.values(), ids=MADE)
def test_the_scenario_has_data_that_the_module_takes(folder, capsys, name, takes, kind):
    assert typed("mine", "--from-torch", f"nets.py:{name}") == 0
    assert takes in capsys.readouterr().out
    written = yaml.safe_load((folder / "mine.yaml").read_text())
    assert written["data"]["kind"] == kind
    assert takes in (folder / "mine.yaml").read_text()
    read(folder / "mine.yaml")


@pytest.mark.parametrize("source, line", REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_a_scenario_is_one_line(folder, capsys, source, line):
    assert typed("mine", "--from-torch", source) == 2
    refused = capsys.readouterr().err
    assert line in refused and refused.count("\n") == 1
    assert not (folder / "mine.yaml").exists()


def test_without_a_name_the_scenario_has_that_of_the_file_and_runs(folder, capsys):
    assert typed("--from-torch", "nets.py:flowers") == 0
    assert "fedsim run nets.yaml --plugin nets.py" in capsys.readouterr().out
    result = fedsim.run(folder / "nets.yaml", rounds=1, seeds=[0])
    assert result.scenario["name"] == "nets" and len(result.rounds) == 2
