"""Damage the files of a killed run and resume it: it is refused, or ends with the same bytes.

python tests/deep/corruption.py --count 10000
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from damage import killed_run, trials


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    began, seen = time.monotonic(), Counter()
    with tempfile.TemporaryDirectory() as folder:
        expected = killed_run(Path(folder) / "template")
        scratch = Path(folder) / "copy"
        for n, (done, came) in enumerate(
            trials(Path(folder) / "template", expected, scratch, asked.seed, asked.count), 1
        ):
            what, target = done.split()
            seen[what, target.partition(".")[2], came] += 1
            if n % 500 == 0:
                print(
                    f"{n} of {asked.count}, {time.monotonic() - began:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    for (what, target, came), number in sorted(seen.items()):
        print(f"{what:<10} {target:<6} {came:<14} {number:6}")
    print(f"{sum(seen.values())} damaged, 0 silently different, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
