"""Measure promises and write `tests/TRUST.md`.

python -m tests.trust            # the page, from the stored figures
python -m tests.trust 4 17       # measure these rows, store their figures, write the page
python -m tests.trust --all      # every row, from the cheapest (hours)
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

from trust import ROOT, stale, table

CHEAPEST = (
    *(15, 13, 17, 21, 18, 20, 10, 16, 22, 25, 3, 14),
    *(12, 11, 1, 2, 5, 6, 8, 19, 7, 9, 24, 4, 23),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", type=int, metavar="ROW")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--stale", action="store_true")
    asked = parser.parse_args()
    unknown = set(asked.rows) - set(table.ROWS)
    if unknown:
        parser.error(f"no row {min(unknown)}; rows are 1 to {max(table.ROWS)}")
    if asked.stale:
        print(stale.report())
        return
    rows = list(CHEAPEST) if asked.all else asked.rows
    if len(rows) > 1:  # each in a process of its own: some must not have computed before
        words = [sys.executable, "-m", "tests.trust", *["--quick"] * asked.quick]
        for row in rows:
            subprocess.run([*words, str(row)], cwd=ROOT, check=False)
        return
    for row in rows:
        take = table.measure(row)
        if take is None:
            print(f"{row}: {table.ROWS[row].waits}")
            continue
        began = time.monotonic()
        figure = take(asked.quick)
        print(f"{row}: {'met' if figure.met else 'NOT MET'}: {figure.text}", flush=True)
        if not asked.quick:
            table.keep(
                row, figure, f"python -m tests.trust {row}", time.monotonic() - began, commit()
            )
    if not asked.quick:
        table.PAGE.write_text(table.page())


def commit() -> str:
    """Of the tree that was measured."""
    words = ["git", "rev-parse", "--short=7", "HEAD"]
    return (
        subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.strip()
        or "no commit"
    )


if __name__ == "__main__":
    main()
