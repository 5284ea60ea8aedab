"""Sentences about audited privacy: the lower bound on ε beside the upper one."""

import math
from collections.abc import Callable, Sequence

from fedsim.study.summary import Record, grouped, variation_of
from fedsim.study.words import variation_in_words

MOST = 3  # methods and variations that have a sentence each

SHOWN = (
    "Audit{of}: canaries show {bound} ({confidence:.4g} % confidence{each}); the accountant allows "
    "{upper}."
)
NOTHING = "no ε above 0"
ONE = "an ε of at least {low:.3g}"
SEVERAL = "an ε of at least {low:.3g} to {high:.3g} in {runs} runs"
ALL = "Audit: summary.csv has the lower bounds on ε of {runs} runs, beside the accountant's ε."
ABOVE = (
    "Audit{of}: in {above} of {runs} runs the lower bound is above the accountant's ε, which "
    "happens by chance to {chance:.3g} % of sound runs at most{remedy}."
)
REMEDY = "; check noise, clip and sampling"
MOST_BY_CHANCE = 0.05  # the probability that a sound comparison gets the remedy, at most


def findings(
    summary: Sequence[Record],
    words: Callable[[str], str] = variation_in_words,
    compared: Sequence[Record] = (),
) -> list[str]:
    """Return what canaries show of every method and variation, by rising ε of the accountant.

    A lower bound holds with its confidence for one run, so that of several runs each is told. There
    are no sentences where nothing was audited.

    >>> row = {"method": "fedavg", "epsilon": 4.0, "epsilon_low": 1.25, "epsilon_confidence": 0.95}
    >>> for line in findings([row]):
    ...     print(line)
    Audit: canaries show an ε of at least 1.25 (95 % confidence); the accountant allows 4.
    """
    audited = [row for row in summary if row.get("epsilon_low") is not None]
    groups = grouped(audited, key=lambda row: (row["method"], variation_of(row)))
    lines = []
    if len(groups) > MOST:
        lines.append(ALL.format(runs=len(audited)))
    for method, variation in sorted(groups, key=lambda name: _upper(groups[name])):
        rows = groups[method, variation]
        of = ""
        if len(groups) > 1:
            of = f" of {method}"
            if variation:
                of += f", {words(variation)}"
        if len(groups) <= MOST:
            lines.append(_shown(rows, of))
        lines += _above(rows, of, groups=len(groups))
    return lines


def _upper(rows: Sequence[Record]) -> float:
    """The accountant's ε, which is the same for all runs that have done as many rounds."""
    return max(row["epsilon"] for row in rows)


def _shown(rows: Sequence[Record], of: str) -> str:
    """Both bounds of one method under one variation."""
    lows = [row["epsilon_low"] for row in rows]
    low = min(lows)
    high = max(lows)
    if high == 0:
        bound = NOTHING
    elif low == high:
        bound = ONE
    else:
        bound = SEVERAL

    upper = "any"
    if math.isfinite(_upper(rows)):
        upper = f"{_upper(rows):.4g}"
    each = " each" if len(rows) > 1 else ""
    return SHOWN.format(
        of=of,
        bound=bound.format(low=low, high=high, runs=len(rows)),
        confidence=100 * rows[0]["epsilon_confidence"],
        each=each,
        upper=upper,
    )


def _above(rows: Sequence[Record], of: str, groups: int) -> list[str]:
    """In how many runs a lower bound is above the upper one, and what to do if chance is unlikely.

    Args:
      groups: methods and variations that may get the remedy.
    """
    above = sum(row["epsilon_low"] > row["epsilon"] for row in rows)
    if not above:
        return []
    from scipy.stats import binom  # takes a tenth of a second to import

    chance = 1 - rows[0]["epsilon_confidence"]
    as_many_by_chance = binom.sf(above - 1, len(rows), chance)

    # A confidence such as 0.95 leaves 0.05 only to rounding.
    improbable = as_many_by_chance <= MOST_BY_CHANCE / groups * (1 + 1e-9)
    remedy = REMEDY if improbable else ""
    return [ABOVE.format(of=of, above=above, runs=len(rows), chance=100 * chance, remedy=remedy)]
