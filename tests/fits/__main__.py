"""Record anew what `fedsim check` answers to every combination, and says of every refusal.

python -m tests.fits
python -m tests.fits lines  # the second alone
"""

import csv
import sys
import time
from collections import Counter

from tests.fits.combinations import ANSWERS, LINES, answer, cases, of_checks, refusal, said


def main() -> None:
    record_lines()
    if sys.argv[1:] != ["lines"]:
        record_answers()


def record_lines() -> None:
    refused = {name: values for name, values in of_checks().items() if ", nearest" not in name}
    with LINES.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("case", "line"))
        writer.writerows((name, said(refusal(values))) for name, values in refused.items())


def record_answers() -> None:
    start = time.perf_counter()
    answers = {name: answer(values) for name, values in cases().items()}
    seconds = time.perf_counter() - start
    with ANSWERS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("case", "verdict", "places"))
        writer.writerows((name, *found) for name, found in answers.items())

    verdicts = Counter(verdict for verdict, _ in answers.values())
    places = Counter(place for _, found in answers.values() for place in found.split())
    print(f"{len(answers):,} cases in {seconds:.0f} s: {verdicts.pop('accepted'):,} accepted")
    for verdict, count in sorted(verdicts.items()):
        print(f"{count:7,} refused with exit code {verdict}")
    for place, count in places.most_common():
        print(f"{count:7,} at {place}")


if __name__ == "__main__":
    main()
