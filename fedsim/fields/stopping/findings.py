"""A sentence about runs that ended early, which other runs must not be compared with unawares."""

from collections.abc import Callable, Sequence

from fedsim.fields.stopping.spent import ROUNDS
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.summary import Record

EARLY = "{early} of {runs} runs ended early, after {rounds} rounds."
UNEQUAL = EARLY + " Scores are of unequal numbers of rounds; the column stopped has each."
EARLIER = (
    "{method} ended {difference:.3g} rounds {way} than {baseline}, after {rounds:.3g} on average "
    "(p = {p:.2g})."
)


def findings(
    summary: Sequence[Record],
    words: Callable[[str], str] = str,
    compared: Sequence[Record] = (),
) -> list[str]:
    """Return how many runs ended early, and which method ended earlier or later by most.

    The latter is tested against the baseline, after Holm over all rows of `compare.csv`; nothing is
    said where no difference is significant.

    >>> findings([{"stopped": 16}, {"stopped": 20}, {"stopped": None}])[0]
    '2 of 3 runs ended early, after 16 to 20 rounds. Scores are of unequal numbers of rounds; the \
column stopped has each.'
    """
    return [*_early_ends(summary), *_earlier(compared)]


def _earlier(compared: Sequence[Record]) -> list[str]:
    """Who ended earlier or later than the baseline by most, where that is significant."""
    significant = []
    for row in compared:
        p = row.get(f"{ROUNDS}_p_adjusted")
        if p is not None and p < SIGNIFICANCE_LEVEL:
            significant.append(row)
    if not significant:
        return []
    most = max(significant, key=lambda row: abs(row[f"{ROUNDS}_difference"]))
    difference = most[f"{ROUNDS}_difference"]
    sentence = EARLIER.format(
        method=most["method"],
        difference=abs(difference),
        way="earlier" if difference < 0 else "later",
        baseline=most["baseline"],
        rounds=most[ROUNDS],
        p=most[f"{ROUNDS}_p_adjusted"],
    )
    return [sentence]


def _early_ends(summary: Sequence[Record]) -> list[str]:
    """How many runs ended early, and after how many rounds; nothing where none did."""
    rounds = [row["stopped"] for row in summary if row.get("stopped") is not None]
    if not rounds:
        return []
    low, high = int(min(rounds)), int(max(rounds))
    span = f"{low}" if low == high else f"{low} to {high}"
    is_equal = low == high and len(rounds) == len(summary)
    text = EARLY if is_equal else UNEQUAL
    return [text.format(early=len(rounds), runs=len(summary), rounds=span)]
