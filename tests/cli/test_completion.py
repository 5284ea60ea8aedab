"""What shells complete, asked as they ask."""

import os
import shlex
import shutil
import subprocess

import pytest
from test_commands import FEDSIM, fedsim

from fedsim.cli import cli

BASH = """
eval "$(_FEDSIM_COMPLETE=bash_source fedsim)"
COMP_WORDS=(fedsim run ii); COMP_CWORD=2
_fedsim_completion fedsim
echo "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("ii", ["iid"]),
        ("compare/rul", ["compare/rules"]),
        ("rul", ["rules"]),  # of a folder, whose name may be left out
        ("min", ["min"]),  # of a file that is here, which the shell looks for
    ],
)
def test_a_scenario_is_a_file_or_one_that_is_shipped(typed, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("")
    run = cli.get_command(None, "run")
    found = run.params[0].shell_complete(run.make_context("run", ["iid"]), typed)
    assert [item.value for item in found] == expected
    assert {item.type for item in found} == {"file" if typed == "min" else "plain"}


def test_a_local_file_wins_over_the_shipped_scenario_of_its_name(tmp_path):
    (tmp_path / "scaffold.yaml").write_text("name: mine\ndata: {kind: iris, clients: 3}\n")
    done = fedsim("check scaffold --resolved", tmp_path)
    assert done.returncode == 0 and "\nname: mine\n" in f"\n{done.stdout}", done


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_the_name_of_a_scenario_without_jax(tmp_path):
    """`fedsim` is a file that starts this Python, in which nobody can import JAX."""
    (tmp_path / "jax.py").write_text("raise AssertionError")
    program = tmp_path / "fedsim"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(FEDSIM)} "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    }
    words = ["bash", "--norc", "-c", BASH]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.stdout == "iid\n", done.stderr
