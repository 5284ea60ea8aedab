"""Measurements for the table of promises in `tests/TRUST.md`: `python -m tests.trust [ROW ...]`."""

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
for folder in (TESTS, *sorted({path.parent for path in TESTS.glob("*/test_*.py")})):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def in_process(code: str, *words: str, **environment: str) -> dict | list:
    """Run code in a process; return the JSON on the last line that it prints.

    Args:
      code: Python source; it finds fedsim and the tests.
      words: its arguments.
      environment: variables of the process.
    """
    path = os.pathsep.join([str(ROOT), str(TESTS)])
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def commit() -> str:
    """Of the tree that is measured."""
    words = ["git", "rev-parse", "--short=7", "HEAD"]
    head = subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return head or "no commit"
