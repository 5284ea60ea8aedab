"""Measurements for the table of promises in `tests/TRUST.md`: `python -m tests.trust [ROW ...]`."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
for folder in (TESTS, *sorted({path.parent for path in TESTS.glob("*/test_*.py")})):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
