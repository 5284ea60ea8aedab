"""Row 25: on pure noise no kind of sentence of a comparison is wrong in more than 5 % of the comparisons.

Tables are drawn, nothing is trained. In every comparison all methods draw their scores from the same distribution, or, for
what is told to have the same score, from one that is worse by exactly the margin: so whatever a sentence claims is wrong.
Claims are counted as data (`fedsim.study.claims`), made by the code that makes them for a user.
"""

from collections import Counter

import numpy as np
from scipy.stats import binom

from fedsim.report.paper_table import _scores, can_tell
from fedsim.report.results import grouped_by
from fedsim.runs.comparison import verdict_of
from fedsim.study.claims import APART, KINDS, Claim
from fedsim.study.conclusions import conclusions
from trust.shapes import SHAPES, Rows, Table
from trust.table import Figure

PLAYED = 2000
QUICK = 100
LEVEL = 0.05
BY_CHANCE = 0.01  # so rarely does a kind that is wrong in 5 % come out as often as it did, where it is too often


def claims(table: Table) -> list[Claim]:
    """All that a page of this comparison claims, in sentences or in the columns that they are made of, and that is a mistake."""
    records: dict[str, Rows] = conclusions(
        table.summary, [], "m0", "final", table.varied, table.rounds
    )
    records |= {"summary": table.summary, "rounds": table.rounds, "tuning": []}
    about = verdict_of(records, None, table.scenario, "m0", "final", [])
    return [
        claim for claim in [*about.claims, *of_paper(table.summary)] if claim.kind in table.false
    ]


def of_paper(summary: Rows) -> list[Claim]:
    """What a paper's table claims in its columns: who has no dagger is worse than the best."""
    made = []
    for (variant,), rows in grouped_by(summary, "variant").items():
        methods = list(dict.fromkeys(row["method"] for row in rows))
        if can_tell(rows):
            column = zip(methods, _scores(methods, rows, "final", "sd"), strict=True)
            worse = [method for method, one in column if not one.best and not one.level]
            made += [Claim(APART, method, "", str(variant or ""), None) for method in worse]
    return made


def wrong(count: int, seed: int = 25) -> tuple[Counter[str], Counter[str], int]:
    """Comparisons in which a kind of claim is made and wrong, those in which it would have been, and those with any mistake.

    Args:
      count: comparisons that are played.
      seed: of the draws.
    """
    made: Counter[str] = Counter()
    could: Counter[str] = Counter()
    some = 0
    for number in range(count):
        table = SHAPES[number % len(SHAPES)](np.random.default_rng((seed, number)))
        mistakes = {claim.kind for claim in claims(table)}
        made.update(mistakes)
        could.update(table.false)
        some += bool(mistakes)
    return made, could, some


def played(quick: bool) -> Figure:
    """Every kind of claim, counted over comparisons of pure noise in which it would be a mistake."""
    count = QUICK if quick else PLAYED
    made, could, some = wrong(count)
    kinds = "; ".join(f"{kind}: {made[kind]} of {could[kind]}" for kind in KINDS)
    text = f"{count:,} comparisons of pure noise, wrong of those in which it would be: {kinds}; any of them: {some}"
    return Figure(text, not too_often(made, could))


def too_often(made: Counter[str], could: Counter[str]) -> list[str]:
    """Kinds that are wrong in more than 5 % of the comparisons, by more than chance."""
    return [kind for kind in KINDS if _tail(made[kind], could[kind]) < BY_CHANCE]


def _tail(count: int, total: int) -> float:
    """P(Bin(total, 5 %) ≥ count)."""
    return float(binom.sf(count - 1, total, LEVEL))
