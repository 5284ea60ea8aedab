"""The headline where what varies does not concern the baseline, such as ε a run without privacy.

The baseline has the same score in all variations, and nobody a better one. What is asked is how
much the others lose: the best of them, where they lose most and where they lose least.
"""

from collections.abc import Mapping, Sequence

from fedsim.study.claims import Claim, Sentence
from fedsim.study.findings import Findings
from fedsim.study.standings import Standing

PRICE = (
    "{baseline}, the baseline, has the best mean in {which} variations, {metric} {score}: "
    "with {worst}, {next_worst}; with {best}, {next_best}."
)
NEXT = "{method} comes next, {loss:z.3g} worse{certainty}"
SIGNIFICANT = " (95 % CI {low:.3g} to {high:.3g}; p = {p:.2g} after Holm)"
INTERVAL = " (95 % CI {low:.3g} to {high:.3g}), but not significantly"


def price_headline(
    by_variation: Mapping[str, Sequence[Standing]], findings: Findings
) -> Sentence | None:
    """Return what the others lose to a baseline that never changes; None where it does.

    Args:
      by_variation: methods by variation, the best first.
      findings: the comparison.
    """
    if len(by_variation) < 2 or not all(map(_baseline_leads, by_variation.values())):
        return None
    baseline_means = {group[0].mean for group in by_variation.values()}
    if len(baseline_means) > 1:
        return None

    followers = {variation: group[1] for variation, group in by_variation.items()}
    ranked = sorted(followers, key=lambda variation: followers[variation].benefit)
    worst = ranked[0]
    best = ranked[-1]
    first = by_variation[worst][0]
    claims: list[Claim] = []
    for variation in (worst, best):
        if followers[variation].significant:
            claims.append(findings.claim(followers[variation], variation))

    count = len(by_variation)
    which = "both" if count == 2 else f"all {count}"
    text = PRICE.format(
        baseline=first.method,
        which=which,
        metric=findings.metric_name,
        score=findings.score_text(first.mean),
        worst=findings.words(worst),
        next_worst=_next(followers[worst]),
        best=findings.words(best),
        next_best=_next(followers[best]),
    )
    return Sentence(text, claims=claims, begins_with_name=True)


def _baseline_leads(group: Sequence[Standing]) -> bool:
    """Whether the baseline has the best mean, and there is a difference of the next one to it."""
    if len(group) < 2 or group[0].row is not None or group[0].chance:
        return False
    follower = group[1]
    return follower.mean is not None and follower.benefit_ends is not None


def _next(standing: Standing) -> str:
    """How much worse the best of the others is, and how sure that is."""
    assert standing.benefit_ends is not None
    assert standing.row is not None
    low, high = standing.benefit_ends
    template = SIGNIFICANT if standing.significant else INTERVAL
    certainty = template.format(low=-high, high=-low, p=standing.row["p_adjusted"] or 0.0)
    return NEXT.format(method=standing.method, loss=-standing.benefit, certainty=certainty)
