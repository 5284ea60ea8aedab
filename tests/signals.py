"""Interrupt real runs at random times: they end soon, with the right code, and can be resumed."""

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from directories import leftovers, started, tiny, wait_for_commit, whole

SCENARIO = tiny(0.0, rounds=200, seeds=[0])
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
LIMIT = 5.0  # seconds


def interrupted(process: subprocess.Popen, number: int) -> tuple[float, int, str]:
    """Send a signal -> seconds until the process has ended, its exit code, and what it said."""
    began = time.monotonic()
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    return time.monotonic() - began, process.returncode, said


def trial(file: Path, out: Path, number: int, wait: float, expected: dict[str, str]) -> float:
    """Interrupt a run after a commit; resume it as its message says; return seconds to the end."""
    process = started(file, out)
    assert wait_for_commit(process, out, set())
    time.sleep(wait)
    seconds, code, said = interrupted(process, number)
    assert code == CODES[number] and seconds < LIMIT, (code, seconds, said)
    assert said.count("\n") == 1 and said.startswith("fedsim: interrupted"), said
    assert leftovers(out) == [] and (out / "run.json").exists()
    resume(said, out, expected)
    return seconds


def resume(said: str, out: Path, expected: dict[str, str]) -> None:
    """Do as the message says."""
    found = re.search(r"resume with: (fedsim run .* --resume)$", said.strip())
    assert found, said
    words = shlex.split(found[1])
    done = subprocess.run(
        [sys.executable, "-m", "fedsim.cli", *words[1:]], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    whole(out, expected)
