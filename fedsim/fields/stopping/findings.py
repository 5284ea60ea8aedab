"""A sentence about runs that ended early, which other runs must not be compared with unawares."""

from collections.abc import Callable, Sequence

from fedsim.study.summary import Record

EARLY = "{early} of {runs} runs ended early, after {rounds} rounds."
UNEQUAL = EARLY + " Scores are of unequal numbers of rounds; the column stopped has each."


def findings(summary: Sequence[Record], words: Callable[[str], str] = str) -> list[str]:
    """Return how many runs ended early, and after how many rounds; nothing where none did.

    Args:
      summary: rows of `summary.csv`.
      words: returns a variation in words.

    >>> findings([{"stopped": 16}, {"stopped": 20}, {"stopped": None}])[0]
    '2 of 3 runs ended early, after 16 to 20 rounds. Scores are of unequal numbers of rounds; the \
column stopped has each.'
    """
    rounds = [row["stopped"] for row in summary if row.get("stopped") is not None]
    if not rounds:
        return []
    low, high = int(min(rounds)), int(max(rounds))
    span = f"{low}" if low == high else f"{low} to {high}"
    is_equal = low == high and len(rounds) == len(summary)
    text = EARLY if is_equal else UNEQUAL
    return [text.format(early=len(rounds), runs=len(summary), rounds=span)]
