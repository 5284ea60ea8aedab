"""Several processes want one run directory: exactly one gets it, and the others are told so.

python tests/deep/races.py --count 50
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from directories import bits, finished, leftovers, started, tiny, whole, written

SCENARIO = tiny(0.0, rounds=30)
CLAIM = """
import sys
from pathlib import Path
from fedsim.errors import LockedError
from fedsim.runs.directory import open_run_directory
from fedsim.errors import DirectoryError

print("ready", flush=True)
for out in map(str.strip, sys.stdin):
    try:
        with open_run_directory(Path(out), force=False, resume=len(out) % 2 > 0):
            print("won", flush=True)
            sys.stdin.readline()
            (Path(out) / "run.json").write_text("mine")
        print("left", flush=True)
    except LockedError as error:
        print("locked" if "in use by process" in str(error) else error, flush=True)
    except DirectoryError as error:
        print(error, flush=True)
"""


def quick_races(folder: Path, count: int, writers: int = 2) -> int:
    """Return how many races for the claim alone, each on a new directory, had one winner."""
    pipe = subprocess.PIPE
    words = [sys.executable, "-c", CLAIM]
    processes = [
        subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) for _ in range(writers)
    ]
    streams = [(process.stdin, process.stdout) for process in processes]
    assert [answers.readline().strip() for _, answers in streams] == ["ready"] * writers
    for n in range(count):
        out = folder / f"race{n}"
        for orders, _ in random.sample(streams, writers):
            orders.write(f"{out}\n")
            orders.flush()
        said = [answers.readline().strip() for _, answers in streams]
        assert sorted(said) == ["locked"] * (writers - 1) + ["won"], said
        orders, answers = streams[said.index("won")]
        orders.write("\n")
        orders.flush()
        assert answers.readline().strip() == "left"
        assert [path.name for path in out.iterdir()] == ["run.json"] and not leftovers(out)
    for process in processes:
        process.communicate("")
    return count


def race(file: Path, out: Path, expected: dict[str, str], words: tuple[str, ...] = ()) -> str:
    """Two whole runs at once -> how the second one learned of the first."""
    processes = [started(file, out, *words), started(file, out, *words)]
    said = [process.communicate()[1] for process in processes]
    codes = sorted(process.returncode for process in processes)
    assert codes[0] == 0, (codes, said)
    if codes[1] == 6:
        assert sum("in use by process" in text and text.count("\n") == 1 for text in said) == 1, (
            said
        )
        came = "locked"
    elif words:
        assert codes[1] == 0  # it came so late that there was nothing left to do
        came = "late"
    else:
        assert codes[1] == 4 and sum("already exists" in text for text in said) == 1, (codes, said)
        came = "late"
    whole(out, expected)
    return came


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--quick", type=int, default=2000, help="races for the claim alone")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        began = time.monotonic()
        for writers in (2, 4):
            (folder / str(writers)).mkdir()
            quick_races(folder / str(writers), asked.quick // 2, writers)
        print(
            f"{asked.quick} races for the claim, one winner each, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        file, began = written(SCENARIO, folder / "scenario.yaml"), time.monotonic()
        assert finished(file, folder / "whole").returncode == 0
        expected = bits(folder / "whole")
        ways = [
            race(file, folder / f"run{n}", expected, ("--resume",) if n % 2 else ())
            for n in range(asked.count)
        ]
    losers = f"{ways.count('locked')} losers found it in use, {ways.count('late')} came late"
    seconds = time.monotonic() - began
    print(f"{asked.count} races of two runs: one winner each, {losers}, {seconds:.0f} s")


if __name__ == "__main__":
    main()
