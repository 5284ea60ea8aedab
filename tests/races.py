"""Several processes want one run directory: exactly one gets it, and the others are told so."""

import random
import subprocess
import sys
from pathlib import Path

from directories import leftovers, started, tiny, whole

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
