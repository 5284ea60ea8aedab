"""The README is executed: its commands in a copy of the project and a fresh virtual environment, its Python block, its table."""

import re
import shutil
import subprocess

import pandas as pd
import pytest

import fedsim


def blocks(root, name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", (root / "README.md").read_text(), re.S)
    assert found, f"README.md has no block '{name}'"
    return found[1]


@pytest.mark.slow
def test_the_main_command_on_a_fresh_machine(root, tmp_path):
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True
    )
    for name in files.stdout.split("\n"):
        if name and (root / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, tmp_path / name)
    shell = lambda block: subprocess.run(["bash", "-euc", block], cwd=tmp_path, capture_output=True, text=True)
    done = shell(blocks(root, "main"))
    assert done.returncode == 0, done.stderr
    check_table(root, done.stdout)
    done = shell(blocks(root, "cli"))
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "reports/skewed/rounds.csv")) == 42
    done = shell(blocks(root, "resume"))
    assert done.returncode == 0, done.stderr
    assert "reports/iid is equal to what its record says" in done.stdout and "data.partition.kind" in done.stdout
    tests = blocks(root, "tests").strip()
    done = shell(tests + " --collect-only")
    assert done.returncode == 0 and "test_the_main_command" in done.stdout


def check_table(root, printed: str) -> None:
    """The table in the README has the form of the one that was printed, and its numbers within what other machines give."""
    shown = re.search(r"```text\n(.*?)```", (root / "README.md").read_text(), re.S)
    shown, printed = (re.split(r"\s+", text.strip()) for text in (shown[1], printed))
    assert len(shown) == len(printed)
    for a, b in zip(shown, printed, strict=True):
        assert a == b or abs(float(a) - float(b)) < 0.02


def test_python_block(root, monkeypatch, capsys):
    monkeypatch.chdir(root)
    exec(compile(blocks(root, "python"), "README.md", "exec"), {"__name__": "readme"})
    assert "(64, 64)" in capsys.readouterr().out


def test_own_block(root, capsys):
    exec(compile(blocks(root, "own"), "README.md", "exec"), {"__name__": "readme"})
    median, clipped, midrange = capsys.readouterr().out.strip().split("\n")
    assert median == "[1.2 1.8]" and midrange == "[ 50.5 -49. ]" and clipped.startswith("[0.")


def test_robust_block(root, tmp_path):
    (tmp_path / "robust.yaml").write_text(blocks(root, "robust"))
    result = fedsim.run(tmp_path / "robust.yaml")
    mean = fedsim.run(tmp_path / "robust.yaml", edits=["server=[mean]"])
    assert result.summary["final"][0] > mean.summary["final"][0] + 0.1  # the defence is worth its place in the README


def test_table_of_files_is_what_a_run_writes(root, tmp_path):
    fedsim.run(root / "scenarios/iid.yaml", edits=["rounds=1"], out=tmp_path / "iid")
    named = set(re.findall(r"^\| `([^`]+)` \|", (root / "README.md").read_text(), re.M))
    written = {re.sub(r"model\.\w+\.\d+", "model.<method>.<seed>", path.name) for path in (tmp_path / "iid").iterdir()}
    assert named == written


def test_ci_runs_the_readme_s_test_command(root):
    assert "<!-- tests -->" in (root / ".ci/run").read_text()
