"""The scripts in scenarios/python run from the project's root and print what they promise.

Each has its own process: other tests must not see what they register.
"""

import re
import shlex
import subprocess
import sys

import pytest
from conftest import if_whole

pytestmark = [pytest.mark.long, pytest.mark.optimised]


@pytest.fixture
def run(root):
    """Run a Python command from the project's root -> what it printed."""

    def run(*arguments: str) -> str:
        words = [sys.executable, *arguments]
        done = subprocess.run(words, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr
        return done.stdout

    return run


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"(?<!\S)\d+\.\d+(?!\S)", text)]


def test_own_data_is_partitioned_by_its_ids_and_comes_out_ready_to_plot(run):
    printed = run("scenarios/python/own_data.py")
    curves, late, worst = re.split(r"\n(?=\s+mean|\s+global_accuracy)", printed, maxsplit=2)
    assert [line.split()[0] for line in curves.split("\n")[2:]] == ["0", "5", "10", "15", "20"]
    assert all(mean > 0.75 for mean in numbers(late)[::2])
    assert len(re.findall(r"^hospital \d\d ", worst, re.M)) == 3


NETWORKS = {  # script -> what its lines are about
    "own_model": ["functions", "flax", "equinox"],
    "own_network": ["equinox_net", "linen_net", "nnx_net"],
}


@if_whole
@pytest.mark.parametrize("script", NETWORKS)
def test_networks_learn_in_every_form(script, run):
    pytest.importorskip("equinox")
    pytest.importorskip("flax")
    printed = run(f"scenarios/python/{script}.py")
    assert re.findall(r"^\w+", printed, re.M) == NETWORKS[script]
    assert min(numbers(printed)) > 0.85


PLUG_INS = [("own_client", 0), ("own_rule", 0), *(("own_network", number) for number in range(3))]


@pytest.mark.parametrize(("name", "number"), PLUG_INS)
def test_what_was_written_for_a_script_is_a_plug_in_too(root, run, tmp_path, name, number):
    plugin = f"scenarios/python/{name}.py"
    script = (root / plugin).read_text().replace("\\\n", " ")  # continued lines are one command
    commands = re.findall(r"^    fedsim (run .*)$", script, re.M)
    command = commands[number]
    assert f"--plugin {plugin}" in command
    short = ["--no-pictures", "--set", "rounds=1", "--seeds", "1", "--out", str(tmp_path / "a")]
    run("-m", "fedsim.cli", *shlex.split(command), *short)
