"""What `pip install fedsim-jax` brings to a new folder: command, kinds, scenarios, samples."""

import os
import subprocess
import sys

import pytest


@pytest.mark.long
def test_the_command_lists_and_runs_all_scenarios_of_the_project_by_name(root, tmp_path):
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
    assert (folder / "reports/iid/figures/curves.png").is_file()
