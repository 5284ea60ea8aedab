"""Rows whose measure is a number of tests that pass, long ones too."""

import os
import re
import subprocess
import sys

from trust import ROOT
from trust.table import Figure

SUITES: dict[int, tuple[str, tuple[str, str], int]] = {
    5: (
        "order of all operations on the disk, client memory in the commit or in a file",
        ("tests/runs/test_persistence.py", "flushed"),
        2,
    ),
    12: (
        "attacks, each refused within 10 s and 1 GiB, nothing executed or written elsewhere",
        (
            "tests/scenario/test_hostile.py tests/sources/test_confined.py",
            "refuse or command or confined",
        ),
        60,
    ),
}
"""By row: what the tests are about, files and the selection of tests, how many there must be."""


def passed(row: int, quick: bool) -> Figure:
    """Run the tests of a row; a few cases of each if quick."""
    about, (files, selection), least = SUITES[row]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if not quick:
        environment["FEDSIM_WHOLE"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", ""]
    done = subprocess.run(
        [*command, *files.split(), "-k", selection],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(done.stdout[-3000:], flush=True)
    counts = {what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    good = counts.get("passed", 0)
    text = f"{about}: {good} of {sum(counts.values())} pass ({files.replace(' ', ', ')})"
    return Figure(text, done.returncode == 0 and (quick or good >= least))
