"""Ctrl-C and SIGTERM, sent to the command while it runs."""

import signal
import subprocess
import sys
import time

import pytest
from conftest import WHOLE, some
from directories import bits, finished, leftovers, started, tiny, written
from signals import CODES, SCENARIO, interrupted, trial

pytestmark = pytest.mark.long

SIGNALS = [pytest.param(number, id=number.name) for number in CODES]
PAIRS = [
    pytest.param(number, wait, id=f"{number.name}-{wait}")
    for wait in (0.0, 0.11, 0.3)
    for number in CODES
]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """The scenario's file, and the bits of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("quiet")
    file = written(SCENARIO, folder / "scenario.yaml")
    assert finished(file, folder / "run").returncode == 0
    return file, bits(folder / "run")


@pytest.mark.long
@pytest.mark.parametrize(("number", "wait"), PAIRS if WHOLE else [PAIRS[0], PAIRS[3]])
def test_a_signal_ends_a_run_that_can_be_resumed(number, wait, quiet, tmp_path):
    trial(quiet[0], tmp_path / "run", number, wait, quiet[1])


@pytest.mark.long
@pytest.mark.parametrize("number", some(SIGNALS))
def test_a_second_signal_ends_a_run_at_once(number, quiet, tmp_path):
    """Even during a round that takes minutes."""
    slow = tiny(seeds=[0], client={"batch": 1, "epochs": 20_000}, evaluate={"every": 50})
    file, out = written(slow, tmp_path / "slow.yaml"), tmp_path / "run"
    process = started(file, out)
    _wait_for(process, out / "scenario.yaml")
    time.sleep(1.5)
    process.send_signal(number)
    time.sleep(0.3)
    assert process.poll() is None
    seconds, code, errors = interrupted(process, number)
    assert seconds < 1 and code == CODES[number] and "resume with: fedsim run" in errors
    assert leftovers(out) == []
    again = started(file, out, "--resume")  # the lock is gone with the process
    _wait_for(again, out / ".lock")
    time.sleep(1.0)
    assert again.poll() is None
    again.kill()
    again.communicate()


@pytest.mark.long
def test_one_signal_is_enough_for_a_round_that_takes_minutes(tmp_path):
    slow = tiny(seeds=[0], client={"batch": 1, "epochs": 20_000})
    process = started(written(slow, tmp_path / "slow.yaml"), tmp_path / "run")
    _wait_for(process, tmp_path / "run/scenario.yaml")
    time.sleep(1.5)
    seconds, code, errors = interrupted(process, signal.SIGTERM)
    assert 3 < seconds < 5 and code == 143 and "resume with: fedsim run" in errors


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
