"""Interrupt real runs at random times: they end soon, with the right code, and can be resumed.

python tests/deep/signals.py --count 50
"""

import argparse
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from directories import bits, finished, leftovers, started, tiny, wait_for_commit, whole, written

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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng, took = random.Random(asked.seed), []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file = written(SCENARIO, folder / "scenario.yaml")
        assert finished(file, folder / "whole").returncode == 0
        expected = bits(folder / "whole")
        for n in range(asked.count):
            number = (signal.SIGINT, signal.SIGTERM)[n % 2]
            took.append(trial(file, folder / str(n), number, rng.uniform(0, 0.6), expected))
    mean = sum(took) / len(took)
    print(
        f"{asked.count} signals: all resumed to equal bytes;"
        f" mean {mean:.2f} s, longest {max(took):.2f} s"
    )


if __name__ == "__main__":
    main()
