"""What shells complete after `--set`, `--methods` and `--vary`, asked as they ask."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest
from test_commands import FEDSIM, desk  # noqa: F401 (desk is a fixture)

SCENARIO = (
    "name: x\ndata: digits\nclient: {kind: fedprox, mu: 0.1}\nserver: [clip(norm=1), krum(f=1)]\n"
)


def completed(line: str, folder) -> list[str]:
    """What bash gets for a line whose last word is being typed."""
    number = str(line.count(" "))
    asked = {"_FEDSIM_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": number}
    done = subprocess.run(
        FEDSIM, capture_output=True, text=True, cwd=folder, env={**os.environ, **asked}
    )
    assert done.returncode == 0 and done.stderr == ""
    return [answer.partition(",")[2] for answer in done.stdout.splitlines() if answer]


def test_keys_are_completed_to_their_next_dot(desk):  # noqa: F811
    assert completed("fedsim run iid.yaml --set cl", desk) == ["client=", "client."]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("ii", ["iid"]),
        ("compare/rul", ["compare/rules"]),
        ("rul", ["rules"]),  # of a folder, whose name may be left out
    ],
)
def test_names_of_shipped_scenarios_are_completed_beside_files(typed, expected, tmp_path):
    assert completed(f"fedsim run {typed}", tmp_path) == [*expected, typed]


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--set data.partition=dirichlet_", ["data.partition=dirichlet_client"]),
        ("--set model=cn", ["model=cnn"]),
        ("--set evaluate.metric=test_a", ["evaluate.metric=test_accuracy"]),
        ("--set client.shuffle=t", ["client.shuffle=true"]),
        ("--set client.m", ["client.mu=", "client.momentum="]),
        ("--set ser", ["server=", "server[0].", "server[1]."]),
        ("--set server[1].f", ["server[1].f="]),
        ("--set server[1]=mult", ["server[1]=multi_krum"]),
        ("--set wire=[sign_", ["wire=[sign_flip]"]),
        ("--set nothing", []),
        ("--set a=b", []),
        ("--methods fedavg,scaffo", ["fedavg,scaffold"]),
        ("--methods krum(f=1),fedpro", ["krum(f=1),fedprox"]),
        ("--methods fedavg,fedprox(", ["fedavg,fedprox(mu="]),
        ("--methods nobody(", []),
        ("--vary model=mlp,cn", ["model=mlp,cnn"]),
        ("--vary cohort.si", ["cohort.size="]),
        (
            "--tune client.optimi",
            ["client.optimizer=", "client.optimizer.", "client.optimizer_state="],
        ),
    ],
)
def test_options_are_completed(line, expected, tmp_path):
    (tmp_path / "s.yaml").write_text(f"{SCENARIO}cohort: {{kind: uniform, size: 10}}\n")
    assert sorted(completed(f"fedsim compare s.yaml {line}", tmp_path)) == sorted(expected)


@pytest.mark.long
def test_bash_splits_words_at_the_equals_sign(tmp_path):
    assert completed("fedsim run s.yaml --set model = cn", tmp_path) == ["cnn"]
    assert "cnn" in completed("fedsim run s.yaml --set model =", tmp_path)
    assert completed("fedsim compare s.yaml --vary model = mlp,cn", tmp_path) == ["mlp,cnn"]
    assert completed("fedsim run s.yaml --set model = cnn --resu", tmp_path) == ["--resume"]


@pytest.mark.long
def test_all_keys_are_offered_where_the_scenario_is_refused(tmp_path):
    (tmp_path / "s.yaml").write_text("name: [")
    assert "client.rho=" in completed("fedsim run s.yaml --set client.r", tmp_path)


@pytest.mark.long
def test_completion_does_not_import_jax(tmp_path):
    asked = {
        "_FEDSIM_COMPLETE": "bash_complete",
        "COMP_WORDS": "fedsim run iid --set client.",
        "COMP_CWORD": "4",
    }
    words = [sys.executable, "-X", "importtime", *FEDSIM[1:]]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **asked}
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "client.lr=" in done.stdout and not imported & {"jax", "numpy", "pandas"}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_bash_script_completes(tmp_path):
    """The script itself, in the bash that reads it: `fedsim` is a file that starts this Python."""
    program = tmp_path / "fedsim"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(FEDSIM)} "$@"\n')
    program.chmod(0o755)
    script = """
eval "$(_FEDSIM_COMPLETE=bash_source fedsim)"
COMP_WORDS=(fedsim run iid --set model = cn); COMP_CWORD=6
_fedsim_completion fedsim 2>/dev/null
echo "${COMPREPLY[@]}"
complete -p fedsim
"""
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    assert done.stdout.splitlines() == ["cnn", "complete -o nosort -F _fedsim_completion fedsim"]
