"""Sentences about audited privacy: the lower bound on ε beside the upper one."""

from collections.abc import Callable, Sequence

from fedsim.study.summary import Record, grouped, variation_of
from fedsim.study.words import variation_in_words

MOST = 3  # methods and variations that have a sentence each

SHOWN = (
    "Audit{of}: canaries show {bound} ({confidence:.4g} % confidence{each}); the accountant allows "
    "{upper}."
)
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
    bound = f"an ε of at least {min(lows):.3g}"
    if max(lows) > min(lows):
        bound += f" to {max(lows):.3g} in {len(rows)} runs"
    elif max(lows) == 0:
        bound = "no ε above 0"
    each = " each" if len(rows) > 1 else ""
    confidence = 100 * rows[0]["epsilon_confidence"]
    upper = f"{_upper(rows):.4g}".replace("inf", "∞")
    return SHOWN.format(of=of, bound=bound, confidence=confidence, each=each, upper=upper)


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
