"""Measure promises and write `tests/TRUST.md`.

python -m tests.trust            # the page, from the stored figures
python -m tests.trust 4 17       # measure these rows, store their figures, write the page
python -m tests.trust --all      # every row (hours)
python -m tests.trust --quick 4  # a small version, to check that the command works; stores nothing
python -m tests.trust --stale    # the rows that are older than the code that they are about
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("NPROC", "4")  # the size of XLA's thread pool, as in the tests
sys.path.insert(0, str(Path(__file__).parents[1]))

from trust import ROOT, commit, table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", type=int, metavar="ROW")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--stale", action="store_true")
    asked = parser.parse_args()
    if unknown := set(asked.rows) - set(table.ROWS):
        parser.error(f"no row {min(unknown)}; rows are {', '.join(map(str, table.ROWS))}")
    if asked.stale:
        print("\n".join(table.stale()) or "no row is older than its code")
        return
    rows = list(table.ROWS) if asked.all else asked.rows
    if len(rows) > 1:  # each in a process of its own: some must not have computed before
        words = [sys.executable, "-m", "tests.trust", *["--quick"] * asked.quick]
        for row in rows:
            subprocess.run([*words, str(row)], cwd=ROOT, check=False)
        return
    for row in rows:
        began = time.monotonic()
        figure = table.measured(row, asked.quick)
        print(f"{row}: {'met' if figure.met else 'NOT MET'}: {figure.text}", flush=True)
        if not asked.quick:
            table.keep(row, figure, time.monotonic() - began, commit())
    if not asked.quick:
        table.PAGE.write_text(table.page())


if __name__ == "__main__":
    main()
