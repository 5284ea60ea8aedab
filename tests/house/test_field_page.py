"""The field of docs/extend/field.md, written from the page alone, as a package of its own."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from fedsim.errors import ScenarioError
from fedsim.scenario import read

pytestmark = pytest.mark.optimised

AVERAGES = """
import fedsim, jax, numpy as np
from fedsim.engine.stretches import Stretches

def averages(*edits):
    seen = []
    watch = lambda e, s, row: seen.append(row.server)
    result = fedsim.run("averaged.yaml", watch=watch, edits=edits)
    models = [server.shared["params"] for server in seen[3:]]  # from round 3 on
    mean = lambda *leaves: np.mean(leaves, axis=0)
    average = jax.tree.map(mean, *models)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    jax.tree.map(close, seen[-1].state["swa"], average)
    return result.rounds, jax.tree.leaves(seen[-1].state["swa"])

rounds, _ = averages("rounds=6")
assert rounds["swa/test_accuracy"].iloc[0] == rounds["test_accuracy"].iloc[0]
assert (rounds["swa/test_loss"] - rounds["test_loss"]).iloc[4:].abs().min() > 0

_, one_by_one = averages("rounds=6", "schedule=fedasync")
dispatched = []
dispatch = Stretches.dispatch
Stretches.dispatch = lambda *arguments: dispatched.append(1) or dispatch(*arguments)
seen = []
fedsim.run("averaged.yaml", watch=lambda e, s, row: seen.append(row.server),
           edits=["rounds=6", "schedule=fedasync", "evaluate.every=3"])
assert dispatched
for a, b in zip(jax.tree.leaves(seen[-1].state["swa"]), one_by_one):
    np.testing.assert_array_equal(a, b)

fedsim.run("averaged.yaml", edits=["rounds=4"], out="run", pictures=False)
resumed = fedsim.run("averaged.yaml", edits=["rounds=6"], out="run", resume=True, pictures=False)
assert resumed.rounds.equals(rounds)
"""


@pytest.fixture
def package(root, tmp_path):
    """The two files of the page with an entry point, and its scenario."""
    page = (root / "docs/extend/field.md").read_text()
    init, field = re.findall(r"```python\n(.*?)```", page, re.S)
    folder = tmp_path / "swa"
    folder.mkdir()
    (folder / "__init__.py").write_text(init)
    (folder / "field.py").write_text(field)
    metadata = tmp_path / "swa-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: swa\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[fedsim.fields]\nswa = swa\n")
    scenario = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.S)[1])
    (tmp_path / "averaged.yaml").write_text(yaml.safe_dump(scenario))
    return tmp_path


def called(root, package, *arguments):
    environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{package}"}
    options = {"cwd": package, "env": environment, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, *arguments], **options)


@pytest.mark.long
def test_the_average_is_kept_on_the_device_scored_stored_and_resumed(root, package):
    """In rounds, in rounds that are one device call, and as its definition says."""
    done = called(root, package, "-c", AVERAGES)
    assert done.returncode == 0, done.stderr


def test_without_the_package_the_key_is_unknown(package):
    with pytest.raises(ScenarioError, match="swa: unknown key"):
        read(package / "averaged.yaml")


BROKEN = {  # what is changed in a file of the page -> what is said of it
    "no module": ("entry_points.txt", "swa = swa", "swa = swap", "ModuleNotFoundError"),
    "no order": ("__init__.py", "ORDER = 100", "LAST = 100", "no number ORDER"),
    "an unknown place": ("field.py", 'after="server"', 'after="servers"', "behind servers"),
    "a key that there is": ("field.py", "    swa: ", "    rounds: ", "has a key rounds"),
}


@pytest.mark.long
@pytest.mark.parametrize("case", BROKEN)
def test_a_field_that_cannot_be_used_is_refused_in_a_line(root, package, case):
    name, old, new, text = BROKEN[case]
    (file,) = package.rglob(name)
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    done = called(root, package, "-m", "fedsim", "check", "averaged.yaml")
    (line,) = done.stderr.strip().splitlines()
    assert done.returncode == 2 and text in line and "swa" in line
