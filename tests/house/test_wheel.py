"""What `pip install fedsim-jax` brings to a new folder: command, kinds, scenarios, samples."""

import json
import os
import subprocess
import sys

import pytest
from test_cli import DRAWN


@pytest.mark.long
def test_the_command_lists_all_scenarios_and_runs_one_by_name_with_its_pictures(root, tmp_path):
    """In an empty folder; its dependencies are those of the tests."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "-w", tmp_path, root]
    built = subprocess.run(build, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"no wheel can be built here: {built.stderr.strip().splitlines()[-1]}")
    (wheel,) = tmp_path.glob("*.whl")
    install = [*pip, "install", "--no-deps", "--target", tmp_path / "there", wheel]
    subprocess.run(install, check=True, capture_output=True)
    folder = tmp_path / "empty"
    folder.mkdir()

    def printed(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, tmp_path / "there/bin/fedsim", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "there")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = printed("list", "scenarios")
    names = {line.split()[0] for line in listed.splitlines() if line.strip()}
    scenarios = root / "scenarios"
    files = [path.relative_to(scenarios).with_suffix("") for path in scenarios.rglob("*.yaml")]
    assert len(files) > 20 and names >= {file.as_posix() for file in files}

    assert "reports/iid/" in printed("run", "iid", "--set", "rounds=2")
    run = folder / "reports/iid"
    assert DRAWN <= {path.name for path in run.iterdir()}
    drawn = {f"figures/{path.name}" for path in (run / "figures").iterdir()}
    pictures = ("curves.png", "curves.svg", "partition.png", "partition.svg")
    assert drawn == {f"figures/{name}" for name in pictures}
    assert drawn <= json.loads((run / "run.json").read_text())["files"].keys()
