"""Row 25: on pure noise, each kind of claim is wrong in at most 5 % of the comparisons.

Tables are drawn, nothing is trained. In every comparison all methods draw their scores from the
same distribution or, for claims of equal scores, from one that is worse by exactly the margin: so
whatever a sentence claims is wrong. Claims are counted as data (`fedsim.study.claims`), from the
code that makes them for a user.
"""

from collections import Counter

import numpy as np
from scipy.stats import binom

from fedsim.report.paper_table import can_tell, scores_of
from fedsim.report.results import grouped_by
from fedsim.runs.comparison import verdict_of
from fedsim.study.claims import APART, KINDS, Claim
from fedsim.study.conclusions import conclusions
from trust.shapes import SHAPES, Rows, Table
from trust.table import Figure

PLAYED = 2000
QUICK = 100
LEVEL = 0.05
# A kind is wrong too often if a rate of 5 % would give its count with at most this probability.
BY_CHANCE = 0.01


def claims(table: Table) -> list[Claim]:
    """Return the mistaken claims of the comparison's page, in sentences or in their columns."""
    records: dict[str, Rows] = conclusions(
        table.summary, [], "m0", "final", table.varied, table.rounds
    )
    records |= {"summary": table.summary, "rounds": table.rounds, "tuning": []}
    verdict = verdict_of(records, None, table.scenario, "m0", "final", [])
    return [
        claim for claim in [*verdict.claims, *of_paper(table.summary)] if claim.kind in table.false
    ]


def of_paper(summary: Rows) -> list[Claim]:
    """The claims of a paper's table: methods without a dagger are worse than the best."""
    claims = []
    for (variant,), rows in grouped_by(summary, "variant").items():
        methods = list(dict.fromkeys(row["method"] for row in rows))
        if can_tell(rows):
            column = zip(methods, scores_of(methods, rows, "final", "sd"), strict=True)
            worse = [method for method, one in column if not one.best and not one.level]
            claims += [Claim(APART, method, "", str(variant or ""), None) for method in worse]
    return claims


def wrong(count: int, seed: int = 25) -> tuple[Counter[str], Counter[str], int]:
    """Count wrong comparisons.

    Args:
      count: the number of comparisons.
      seed: the seed of the draws.

    Returns:
      By kind of claim, the comparisons in which it is wrong, and those in which it would be; and
      the number of comparisons with any mistake.
    """
    made: Counter[str] = Counter()
    possible: Counter[str] = Counter()
    with_mistake = 0
    for number in range(count):
        table = SHAPES[number % len(SHAPES)](np.random.default_rng((seed, number)))
        mistakes = {claim.kind for claim in claims(table)}
        made.update(mistakes)
        possible.update(table.false)
        with_mistake += bool(mistakes)
    return made, possible, with_mistake


def played(quick: bool) -> Figure:
    """Count each kind of claim over comparisons of pure noise in which it would be a mistake."""
    count = QUICK if quick else PLAYED
    made, possible, with_mistake = wrong(count)
    kinds = "; ".join(f"{kind}: {made[kind]} of {possible[kind]}" for kind in KINDS)
    text = (
        f"{count:,} comparisons of pure noise, wrong of those in which it would be: {kinds}; "
        f"any of them: {with_mistake}"
    )
    return Figure(text, not too_often(made, possible))


def too_often(made: Counter[str], possible: Counter[str]) -> list[str]:
    """Return the kinds that are wrong in more than 5 % of the comparisons, by more than chance."""
    return [kind for kind in KINDS if _tail(made[kind], possible[kind]) < BY_CHANCE]


def _tail(count: int, total: int) -> float:
    """P(Bin(total, 5 %) ≥ count)."""
    return float(binom.sf(count - 1, total, LEVEL))
