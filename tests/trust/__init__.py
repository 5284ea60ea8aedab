"""What the table of promises in `tests/TRUST.md` is measured by: `python -m tests.trust [ROW ...]`."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))
