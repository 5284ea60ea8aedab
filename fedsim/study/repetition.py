"""A run or comparison repeated elsewhere: are its scores those that were recorded?

A repetition on other machines or versions has other bits, and its differences are of either sign
where it is sound. They are paired by seed, and tested as two methods are, under as many variations
as there are methods under variations.
"""

import math
from collections.abc import Sequence

from fedsim.study.pairing import SIGNIFICANCE_LEVEL, against, test_of
from fedsim.study.statistics import smallest_p
from fedsim.study.summary import Record, variation_of, with_score

RECORDED = "recorded"
REPEATED = "repeated"
TESTS = ("difference", "ci_low", "ci_high", "p_value", "p_adjusted")

# Two scores closer than this, relative to the larger, are the same: they are computed in float32.
ROUNDING = 1e-6


def repetition(recorded: Sequence[Record], repeated: Sequence[Record], score: str) -> list[Record]:
    """Compare the rows of two `summary.csv`, method by method, under the seeds that both have.

    Returns:
      A row for each method under each variation: both means, the columns of `compare.csv` about
      their difference, and whether all scores are the `same` but for rounding, the repetition
      `differs` significantly, and so many seeds can differ significantly at all (`testable`).
    """
    by_run = {_key(row): row for row in with_score(repeated, score)}
    pairs: dict[str, list[tuple[Record, Record]]] = {}
    for row in with_score(recorded, score):
        if _key(row) in by_run:
            again = _rounded(by_run[_key(row)], row, score)
            pairs.setdefault(f"{row['method']} {variation_of(row)}", []).append((row, again))

    summary = []
    tests = set()
    for label, runs in pairs.items():
        before = [{**row, "method": RECORDED, "variant": label} for row, _ in runs]
        after = [{**row, "method": REPEATED, "variant": label} for _, row in runs]
        tests.add(test_of(after, before, score))
        summary += [*before, *after]
    compared = {(row["variant"], row["method"]): row for row in against(summary, RECORDED, score)}

    rows = []
    for label, runs in pairs.items():
        first, _ = runs[0]
        row = compared[label, REPEATED]
        p = row["p_adjusted"]
        smallest = len(tests) * smallest_p(len(runs))
        rows.append(
            {
                "method": first["method"],
                "variant": variation_of(first),
                "metric": first["metric"],
                "seeds": len(runs),
                "recorded": compared[label, RECORDED]["mean"],
                "repeated": row["mean"],
                **{name: row[name] for name in TESTS},
                "same": all(_scored(one, score) == _scored(other, score) for one, other in runs),
                "differs": p is not None and p < SIGNIFICANCE_LEVEL,
                "testable": len(runs) > 1 and smallest < SIGNIFICANCE_LEVEL,
            }
        )
    return rows


def _key(row: Record) -> tuple[str, str, int]:
    """Method, variation and seed."""
    return row["method"], variation_of(row), row["seed"]


def _scored(row: Record, score: str) -> tuple[float | None, bool]:
    """The score of a run, and whether it diverged."""
    return row[score], bool(row["diverged"])


def _rounded(row: Record, before: Record, score: str) -> Record:
    """A repeated row, with the recorded score if it differs by no more than rounding."""
    is_near = row["diverged"] and before["diverged"]
    if row[score] is not None and before[score] is not None:
        is_near = is_near or math.isclose(row[score], before[score], rel_tol=ROUNDING)
    return {**row, score: before[score]} if is_near else row
