"""Row 12: a number of tests that pass, long ones too."""

import os
import re
import subprocess
import sys

from trust import ROOT
from trust.table import Figure

FILES = ("tests/scenario/test_hostile.py", "tests/sources/test_confined.py")
TESTS = "refuse or command or confined"
LEAST = 60


def refused(quick: bool) -> Figure:
    """Run the attacks; a few cases of each if quick."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if not quick:
        environment["FEDSIM_WHOLE"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", ""]
    done = subprocess.run(
        [*command, *FILES, "-k", TESTS], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        print(done.stdout[-3000:], flush=True)
    counts = {what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    passed = counts.get("passed", 0)
    text = (
        "attacks, each refused within 10 s and 1 GiB, nothing executed or written elsewhere: "
        f"{passed} of {sum(counts.values())} pass ({', '.join(FILES)})"
    )
    return Figure(text, done.returncode == 0 and (quick or passed >= LEAST))
