"""The headline of a comparison: who leads, by how much, and how sure that is."""

from collections.abc import Mapping, Sequence

from fedsim.study.claims import HOLDS, Claim, Sentence
from fedsim.study.findings import Findings
from fedsim.study.holding import holds
from fedsim.study.pairing import SURE
from fedsim.study.standings import Standing, too_few
from fedsim.study.words import attacks

Group = Sequence[Standing]
"""methods under one variation, the best first"""

EVERYWHERE = "{leader} has the best mean in {which} variations: "
NO_METHOD = "no method is above chance level"
NO_METHOD_BEST = "no method is above chance level: {best}, the best, has {metric} {score}"
LEADS = "{who} {verb} with {metric} {score}"
BRIEFLY = "{who} leads with {score}"
AGAINST = "{leads} against {base} of {baseline}"
SURELY = "{against} ({gain}; {seeds}, p = {p:.2g} after Holm)"
TOO_FEW = "{against} ({gain}; {seeds}, too few to be sure)"
BY_INTERVAL = "{against} ({gain}; {seeds}; by the 95 % interval, not after Holm)"
NOT_APART = "{against}, but cannot be told apart from it ({gain}; {seeds})"
GAIN = "{benefit:.3g} better, 95 % {low:.3g} to {high:.3g}"
GAIN_WITHOUT_INTERVAL = "{benefit:.3g} better"


def headline(by_variant: Mapping[str, Group], found: Findings) -> Sentence:
    """Who leads; where something varies: who leads where the baseline does worst, and where it does
    best.
    """
    if len(by_variant) == 1 and len(next(iter(by_variant.values()))) > 1:
        ((variant, group),) = by_variant.items()
        line = _leading(variant, group, found)
        text = f"{line}{_lost(group)}."
        return Sentence(f"N{text[1:]}" if group[0].chance else text, claims=line.claims)
    if len({standing.method for group in by_variant.values() for standing in group}) == 1:
        return Sentence(_alone(by_variant, found))

    scored = {name: group for name, group in by_variant.items() if group[0].mean is not None}
    leaders = {variant: group[0] for variant, group in scored.items()}
    worth = lambda variant: _worth(by_variant[variant], found)
    hard = min(leaders, key=worth)
    easy = max(leaders, key=worth)

    first = leaders[hard]
    start = subject = ""
    everywhere = all(s.method == first.method and not s.chance for s in leaders.values())
    if everywhere:
        which = "both" if len(by_variant) == 2 else f"all {len(by_variant)}"
        baseline = "" if first.row else ", the baseline,"
        start = EVERYWHERE.format(leader=f"{first.method}{baseline}", which=which)
        subject = "it"

    lines = [_leading(hard, by_variant[hard], found, subject)]
    text = f"with {found.words(hard)}, {lines[0]}"
    if easy != hard:
        lines.append(_brief(easy, by_variant[easy], found, subject))
        text += f"; with {found.words(easy)}, {lines[1]}"
    claims = [claim for line in lines for claim in line.claims]
    return Sentence(f"{start}{text}." if start else f"W{text[1:]}.", claims=claims)


def _alone(by_variant: Mapping[str, Group], found: Findings) -> str:
    """What the only method reaches: where it does best, and where it does worst."""
    first = {variant: group[0].mean for variant, group in by_variant.items()}
    means = {variant: mean for variant, mean in first.items() if mean is not None}
    ranked = sorted(means, key=lambda variant: means[variant], reverse=found.rising)
    method = next(iter(by_variant.values()))[0].method
    ends = []
    for variant in dict.fromkeys([ranked[0], ranked[-1]]):
        where = f" with {found.words(variant)}" if variant else ""
        ends.append(f"{_score(variant, by_variant[variant][0], found)}{where}")
    return f"{method} ends with {found.name} {' and '.join(ends)}."


def _lost(group: Group) -> str:
    """Methods all of whose runs diverged, as the end of a sentence."""
    names = [s.method for s in group if s.diverged]
    return f"; {', '.join(names)} diverged under all seeds" if names else ""


def _worth(group: Group, found: Findings) -> float:
    """How well the baseline does, or without it the best: larger is better."""
    base = _base(group, found)
    mean = base.mean if base is not None and base.mean is not None else group[0].mean
    if mean is None:
        return 0.0
    return mean if found.rising else -mean


def _leading(variant: str, group: Group, found: Findings, subject: str = "") -> Sentence:
    """The best method under one variation: its score, what it gains on the baseline, and how sure
    that is.

    Args:
      variant: as in the column.
      group: its methods, the best first.
      found: what the comparison came to.
      subject: the best, where it was named before.
    """
    best = group[0]
    base = _base(group, found)
    if best.chance:
        score = found.text(best.mean)
        return Sentence(NO_METHOD_BEST.format(best=best.method, metric=found.name, score=score))
    verb, claims = _verb(variant, group, found)
    reaches = {"verb": verb, "metric": found.name, "score": _score(variant, best, found)}
    if best.row is None or base is None or base.mean is None:
        sure, more = _worse(variant, group, found)
        kept = ", the baseline," if best.method == found.baseline and sure and not subject else ""
        leads = LEADS.format(who=f"{subject or best.method}{kept}", **reaches)
        return Sentence(f"{leads}; {sure}" if sure else leads, claims=[*claims, *more])

    leads = LEADS.format(who=subject or best.method, **reaches)
    score = _score(variant, base, found)
    against = AGAINST.format(leads=leads, base=score, baseline=found.baseline)
    against += ", which is at chance level" if base.chance else ""
    told = {"against": against, "gain": _gain(best), "seeds": best.seeds}
    if best.sure:
        text = SURELY.format(**told, p=best.row["p_adjusted"])
        return Sentence(text, claims=[*claims, found.claim(best, variant)])
    if best.clear:
        doubt = TOO_FEW if too_few(best.row["seeds"], found.tests) else BY_INTERVAL
        return Sentence(doubt.format(**told), claims=claims)
    return Sentence(NOT_APART.format(**told), claims=claims)


def _brief(variant: str, group: Group, found: Findings, subject: str) -> Sentence:
    """The best method under one variation and its score, in few words."""
    best = group[0]
    base = _base(group, found)
    if best.chance:
        return Sentence(NO_METHOD)
    leads = BRIEFLY.format(who=subject or best.method, score=_score(variant, best, found))
    if best.row is None or base is None or base.mean is None:
        sure, claims = _worse(variant, group, found)
        return Sentence(f"{leads} ({sure})" if sure else leads, claims=claims)
    score = _score(variant, base, found)
    against = AGAINST.format(leads=leads, base=score, baseline=found.baseline)
    if best.sure:
        return Sentence(against, claims=[found.claim(best, variant)])
    return Sentence(f"{against}, which is not sure")


def _base(group: Group, found: Findings) -> Standing | None:
    return next((s for s in group if s.method == found.baseline), None)


def _verb(variant: str, group: Group, found: Findings) -> tuple[str, list[Claim]]:
    """`holds` under an attack that leaves the best at least half of its gain for sure, else
    `leads`.
    """
    method = group[0].method
    if not attacks(variant):
        return "leads", []
    p = holds(found.rows("summary"), method, variant, found.score, found.start, len(group))
    return ("holds", [Claim(HOLDS, method, "", variant, p)]) if p < SURE else ("leads", [])


def _worse(variant: str, group: Group, found: Findings) -> tuple[str, list[Claim]]:
    """How many of the others are surely worse than the baseline, which is the best of them; nothing
    where none is compared.
    """
    rivals = [s for s in group if s.row and s.row["seeds"]]
    sure = [s for s in rivals if s.sure]
    text = f"{_of(len(sure), len(rivals))} surely worse" if rivals else ""
    return text, [found.claim(s, variant) for s in sure]


def _score(variant: str, standing: Standing, found: Findings) -> str:
    """A mean score, and behind a loss R² and MAE where targets are numbers."""
    errors = found.errors.get((variant, standing.method))
    return f"{found.text(standing.mean)} ({errors})" if errors else found.text(standing.mean)


def _gain(standing: Standing) -> str:
    """How much better than the baseline, with its interval, as far as these are numbers."""
    row = standing.row or {}
    if row["difference"] is None:
        return "better" if standing.benefit > 0 else "no better"
    if standing.benefit_ends is None:
        return GAIN_WITHOUT_INTERVAL.format(benefit=standing.benefit)
    low, high = standing.benefit_ends
    return GAIN.format(benefit=standing.benefit, low=low, high=high)


def _of(count: int, total: int) -> str:
    """So many of the others, as the subject of a sentence.

    >>> _of(2, 2), _of(1, 3), _of(0, 3)
    ('all 2 others are', '1 of the 3 others is', 'none of the 3 others is')
    """
    if count == total:
        return "the other is" if total == 1 else f"all {total} others are"
    some = f"{count or 'none'} of the {total} others" if total > 1 else "the other"
    return f"{some} {'are' if count > 1 else 'is' if total > 1 else 'is not'}"
