"""What `pip install fedsim-jax` brings to a new folder: command, kinds, scenarios, samples."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def installed(root, tmp_path_factory):
    """Run the installed command in an empty folder; its dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    built = subprocess.run(
        [*pip, "wheel", "--no-deps", "-w", folder, root], capture_output=True, text=True
    )
    if built.returncode:
        pytest.skip(f"no wheel can be built here: {built.stderr.strip().splitlines()[-1]}")
    (wheel,) = folder.glob("*.whl")
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", folder / "there", wheel],
        check=True,
        capture_output=True,
    )
    (folder / "empty").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(folder / "there")}

    def run(*words: str) -> str:
        command = [sys.executable, folder / "there/bin/fedsim", *words]
        done = subprocess.run(
            command, cwd=folder / "empty", env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.folder = folder / "empty"
    return run


def test_a_shipped_scenario_runs_by_its_name(installed):
    assert "reports/iid/" in installed("run", "iid", "--set", "rounds=2")
    assert (installed.folder / "reports/iid/figures/curves.png").is_file()
    assert "ok" in installed("verify", "reports/iid") and "in order" in installed("check", "rules")


def test_all_scenarios_of_the_project_are_there(installed, root):
    listed = installed("list", "scenarios")
    files = [
        path.relative_to(root / "scenarios").with_suffix("")
        for path in (root / "scenarios").rglob("*.yaml")
    ]
    names = {line.split()[0] for line in listed.splitlines() if line.strip()}
    assert len(files) > 20 and names >= {file.as_posix() for file in files}


def test_a_local_file_of_the_name_wins(installed):
    own = Path(installed.folder / "scaffold.yaml")
    own.write_text("name: mine\nrounds: 1\ndata: {kind: iris, clients: 3}\n")
    assert "reports/mine/" in installed("run", "scaffold")
