"""Ctrl-C and SIGTERM, sent to the command while it runs."""

import re
import shlex
import signal
import subprocess
import sys
import time

import pytest
from directories import leftovers, played, started, tiny, wait_for_commit, whole, written
from test_commands import FEDSIM

pytestmark = pytest.mark.long

SCENARIO = tiny(0.0, rounds=80, seeds=[0])
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
GRACE = 3.0  # seconds that a round is given, at least, before a single signal ends it
LIMIT = 10.0  # until it ends, on a slow machine as well


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """The scenario's file, and the bits of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("quiet")
    return written(SCENARIO, folder / "scenario.yaml"), played(SCENARIO, folder / "run")


def interrupted(process, number):
    """Send a signal -> seconds until the process has ended, its exit code, and what it said."""
    began = time.monotonic()
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    return time.monotonic() - began, process.returncode, said


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
@pytest.mark.parametrize("wait", [0.0, 0.11, 0.3])
def test_a_signal_ends_a_run_that_can_be_resumed(number, wait, quiet, tmp_path):
    """After a commit; it is resumed as the message says."""
    file, expected = quiet
    out = tmp_path / "run"
    process = started(file, out)
    assert wait_for_commit(process, out, set())
    time.sleep(wait)
    seconds, code, said = interrupted(process, number)
    assert code == CODES[number] and seconds < LIMIT, (code, seconds, said)
    assert said.count("\n") == 1 and said.startswith("fedsim: interrupted"), said
    assert leftovers(out) == [] and (out / "run.json").exists()
    found = re.search(r"resume with: fedsim (run .* --resume)$", said.strip())
    assert found, said
    done = subprocess.run([*FEDSIM, *shlex.split(found[1])], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    whole(out, expected)


def test_a_second_signal_ends_a_run_at_once_and_a_single_one_soon(tmp_path):
    """During a round that takes minutes."""
    slow = tiny(seeds=[0], client={"batch": 1, "epochs": 20_000}, evaluate={"every": 50})
    file, out = written(slow, tmp_path / "slow.yaml"), tmp_path / "run"
    process = started(file, out)
    _wait_for(process, out / "scenario.yaml")
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    seconds, code, errors = interrupted(process, signal.SIGINT)
    assert seconds < GRACE and code == 130 and "resume with: fedsim run" in errors
    assert leftovers(out) == []

    again = started(file, out, "--resume")  # the lock is gone with the process
    _wait_for(again, out / ".lock")
    time.sleep(1.5)
    seconds, code, errors = interrupted(again, signal.SIGTERM)
    assert GRACE < seconds < LIMIT and code == 143 and "resume with: fedsim run" in errors


def test_a_signal_ends_a_command_that_writes_nothing(tmp_path):
    code = (
        "import time; from fedsim.cli import main;"
        "from fedsim.cli.catalogue import list_command as command;"
        "command.callback = lambda **_: time.sleep(30); main(['list'])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    time.sleep(1.0)
    seconds, code, errors = interrupted(process, signal.SIGINT)
    assert seconds < 2 and code == 130 and errors == "fedsim: interrupted; nothing was written\n"


def _wait_for(process, path):
    for _ in range(3000):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")
