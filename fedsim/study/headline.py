"""The headline of a comparison: which method leads, by how much, and how sure that is."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedsim.study.claims import HOLDS, Claim, Sentence
from fedsim.study.findings import Findings
from fedsim.study.holding import holds
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.price import price_headline
from fedsim.study.standings import LEVEL, Standing, too_few
from fedsim.study.words import is_attack, others_of

Group = Sequence[Standing]
"""methods under one variation, the best first"""

ONE_METHOD = "{method} ends at {metric} {scores}."
ONE_METHOD_SCORE = "{score} with {variation}"

EVERYWHERE = "{leader} has the best mean in {which} variations: "
OF_VARIATION = "with {variation}, {clause}"
OF_TWO_VARIATIONS = "with {variation}, {clause}; with {other_variation}, {other_clause}"
ALL_DIVERGED = "; {methods} diverged under all seeds"

NONE_ABOVE_CHANCE = "no method is above chance level: {best}, the best, has {metric} {score}"
NONE_ABOVE_CHANCE_IN_SHORT = "no method is above chance level"

NO_CLEAR_DIFFERENCE = "No clear difference: "
ONE_SEED = "One seed tells nothing apart: "

LEADS = "{leader} {verb} with {metric} {score}"
LEADS_IN_SHORT = "{leader} leads with {score}"
AGAINST = "{leads}, against {base_score} for {baseline}"
AGAINST_CHANCE = "{leads}, against {base_score} for {baseline}, which is at chance level"

SIGNIFICANT = "{against} ({gain}; {seeds}; p = {p:.2g} after Holm)"
FEW_SEEDS = "{against} ({gain}; {seeds}, too few for significance)"
BY_INTERVAL = "{against} ({gain}; {seeds}; by the 95 % interval, but not after Holm)"
NOT_SIGNIFICANT = "{against}, but not significantly ({gain}; {seeds})"
NOT_SIGNIFICANT_IN_SHORT = "{against}, but not significantly"

GAIN = "{benefit:z.3g} better, 95 % CI {low:z.3g} to {high:z.3g}"
GAIN_WITHOUT_INTERVAL = "{benefit:z.3g} better"
OTHERS_WORSE = "{others} significantly worse"


class Clause(NamedTuple):
    """A part of the headline, and the claims that it makes."""

    text: str
    claims: Sequence[Claim] = ()


def headline(findings: Findings) -> Sentence:
    """Return the headline: who leads.

    If something varies, it is who leads where the baseline does worst, and where it does best. If
    what varies does not concern the baseline, it is where the others do.
    """
    by_variation = findings.distinct
    methods = {standing.method for standing in _all_standings(by_variation)}
    if len(methods) == 1:
        return Sentence(_of_one_method(by_variation, findings))
    if len(by_variation) == 1:
        ((variation, group),) = by_variation.items()
        sentence = _of_one_variation(variation, group, findings)
    else:
        price = price_headline(by_variation, findings)
        sentence = price or _of_several_variations(by_variation, findings)
    return sentence.after(_no_difference(by_variation))


def _all_standings(by_variation: Mapping[str, Group]) -> list[Standing]:
    """The methods under all variations, one after another."""
    all_standings = []
    for group in by_variation.values():
        all_standings += group
    return all_standings


def _no_difference(by_variation: Mapping[str, Group]) -> str:
    """How a headline begins where no method can be told apart from the baseline; else nothing."""
    all_standings = _all_standings(by_variation)
    compared = [standing for standing in all_standings if standing.compared]
    if not compared or any(standing.outcome != LEVEL for standing in compared):
        return ""
    if any(standing.mean is None for standing in all_standings):
        return ""
    if max(standing.shared_seeds for standing in compared) == 1:
        return ONE_SEED
    # The same difference under all seeds has no interval that could include 0.
    if any(standing.benefit_ends is None and standing.benefit for standing in compared):
        return ""
    return NO_CLEAR_DIFFERENCE


def _of_one_method(by_variation: Mapping[str, Group], findings: Findings) -> str:
    """The score of the only method: where it does best, and where it does worst."""
    means = {}
    for variation, group in by_variation.items():
        if group[0].mean is not None:
            means[variation] = group[0].mean
    ranked = sorted(means, key=lambda variation: means[variation], reverse=findings.rising)
    best = ranked[0]
    worst = ranked[-1]

    scores = []
    for variation in dict.fromkeys([best, worst]):
        score = _score(variation, by_variation[variation][0], findings)
        if variation:
            words = findings.words(variation)
            score = ONE_METHOD_SCORE.format(score=score, variation=words)
        scores.append(score)
    return ONE_METHOD.format(
        method=by_variation[best][0].method,
        metric=findings.metric_name,
        scores=" and ".join(scores),
    )


def _of_one_variation(variation: str, group: Group, findings: Findings) -> Sentence:
    """Who leads where nothing varies, and which methods diverged."""
    clause = _leading(variation, group, findings)
    # A clause begins with the name of the leading method, if there is one.
    begins_with_name = not group[0].chance
    text = clause.text
    if not begins_with_name:
        text = _capitalised(text)

    diverged = [standing.method for standing in group if standing.diverged]
    if diverged:
        text += ALL_DIVERGED.format(methods=", ".join(diverged))
    return Sentence(f"{text}.", claims=clause.claims, begins_with_name=begins_with_name)


def _of_several_variations(by_variation: Mapping[str, Group], findings: Findings) -> Sentence:
    """Who leads where the baseline does worst, and where it does best."""
    leaders = {}
    for variation, group in by_variation.items():
        if group[0].mean is not None:
            leaders[variation] = group[0]
    worth = {name: _baseline_worth(by_variation[name], findings) for name in leaders}
    hard = min(leaders, key=lambda variation: worth[variation])
    easy = max(leaders, key=lambda variation: worth[variation])

    prefix = ""
    subject = ""
    first = leaders[hard]
    if all(leader.method == first.method and not leader.chance for leader in leaders.values()):
        leader = first.method
        if first.row is None:
            leader += ", the baseline,"
        count = len(by_variation)
        which = "both" if count == 2 else f"all {count}"
        prefix = EVERYWHERE.format(leader=leader, which=which)
        subject = "it"

    clause = _leading(hard, by_variation[hard], findings, subject)
    claims = [*clause.claims]
    text = OF_VARIATION.format(variation=findings.words(hard), clause=clause.text)
    if easy != hard:
        other = _leading_in_short(easy, by_variation[easy], findings, subject)
        claims += other.claims
        text = OF_TWO_VARIATIONS.format(
            variation=findings.words(hard),
            clause=clause.text,
            other_variation=findings.words(easy),
            other_clause=other.text,
        )

    if prefix:
        return Sentence(f"{prefix}{text}.", claims=claims, begins_with_name=True)
    return Sentence(f"{_capitalised(text)}.", claims=claims, begins_with_name=False)


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def _baseline_worth(group: Group, findings: Findings) -> tuple[float, float]:
    """How well the baseline does, then the best of the others: larger is better.

    If the baseline has no score, it is the best method that counts.
    """
    mean = group[0].mean
    base = _baseline(group, findings)
    if base is not None and base.mean is not None:
        mean = base.mean
    others = [standing.mean for standing in group if standing is not base]
    best_other = others[0] if others else None
    return _worth(mean, findings), _worth(best_other, findings)


def _worth(mean: float | None, findings: Findings) -> float:
    """A mean score as a number that is larger for better ones; 0 where there is none."""
    if mean is None:
        return 0.0
    if findings.rising:
        return mean
    return -mean


def _leading(variation: str, group: Group, findings: Findings, subject: str = "") -> Clause:
    """The best method under one variation: its score, its gain on the baseline, how sure that is.

    Args:
      variation: the variation.
      group: its methods, the best first.
      findings: the comparison.
      subject: stands for the best method, if that was named before.
    """
    best = group[0]
    if best.chance:
        score = findings.score_text(best.mean)
        metric = findings.metric_name
        return Clause(NONE_ABOVE_CHANCE.format(best=best.method, metric=metric, score=score))

    verb = _verb(variation, group, findings)
    fields = {
        "verb": verb.text,
        "metric": findings.metric_name,
        "score": _score(variation, best, findings),
    }
    base = _baseline(group, findings)
    if base is not None and _is_compared(best, base):
        leads = LEADS.format(leader=subject or best.method, **fields)
        gain = _gain_clause(leads, variation, best, base, findings)
        return Clause(gain.text, [*verb.claims, *gain.claims])

    worse = _significantly_worse(variation, group, findings)
    leader = subject or best.method
    if best.method == findings.baseline and worse.text and not subject:
        leader = f"{leader}, the baseline,"
    text = LEADS.format(leader=leader, **fields)
    if worse.text:
        text += f"; {worse.text}"
    return Clause(text, [*verb.claims, *worse.claims])


def _leading_in_short(variation: str, group: Group, findings: Findings, subject: str) -> Clause:
    """The best method under one variation and its score, in few words; arguments as `_leading`."""
    best = group[0]
    if best.chance:
        return Clause(NONE_ABOVE_CHANCE_IN_SHORT)

    score = _score(variation, best, findings)
    leads = LEADS_IN_SHORT.format(leader=subject or best.method, score=score)
    base = _baseline(group, findings)
    if base is None or not _is_compared(best, base):
        worse = _significantly_worse(variation, group, findings)
        if worse.text:
            leads += f" ({worse.text})"
        return Clause(leads, worse.claims)

    base_score = _score(variation, base, findings)
    against = AGAINST.format(leads=leads, base_score=base_score, baseline=findings.baseline)
    if best.significant:
        return Clause(against, [findings.claim(best, variation)])
    return Clause(NOT_SIGNIFICANT_IN_SHORT.format(against=against))


def _baseline(group: Group, findings: Findings) -> Standing | None:
    for standing in group:
        if standing.method == findings.baseline:
            return standing
    return None


def _is_compared(best: Standing, base: Standing) -> bool:
    """Whether the best method is another one than the baseline, and the baseline has a score."""
    return best.row is not None and base.mean is not None


def _gain_clause(
    leads: str, variation: str, best: Standing, base: Standing, findings: Findings
) -> Clause:
    """The clause about the best method, with its gain on the baseline, and how sure that is.

    Args:
      leads: the clause so far, with the score of the best method.
      variation: the variation.
      best: the best method, which is not the baseline.
      base: the baseline.
      findings: the comparison.
    """
    row = best.row or {}
    base_score = _score(variation, base, findings)
    template = AGAINST_CHANCE if base.chance else AGAINST
    against = template.format(leads=leads, base_score=base_score, baseline=findings.baseline)

    fields = {"against": against, "gain": _gain(best), "seeds": best.seeds_in_words}
    if best.significant:
        text = SIGNIFICANT.format(**fields, p=row["p_adjusted"])
        return Clause(text, [findings.claim(best, variation)])
    if not best.excludes_zero:
        return Clause(NOT_SIGNIFICANT.format(**fields))
    if too_few(row["seeds"], findings.tests):
        return Clause(FEW_SEEDS.format(**fields))
    return Clause(BY_INTERVAL.format(**fields))


def _verb(variation: str, group: Group, findings: Findings) -> Clause:
    """`holds up` if the best method keeps half of its gain under an attack, else `leads`."""
    if not is_attack(variation):
        return Clause("leads")
    method = group[0].method
    p = holds(
        summary=findings.rows("summary"),
        method=method,
        variation=variation,
        score=findings.score,
        start=findings.start,
        rivals=len(group),
    )
    if p >= SIGNIFICANCE_LEVEL:
        return Clause("leads")
    return Clause("holds up", [Claim(HOLDS, method, "", variation, p)])


def _significantly_worse(variation: str, group: Group, findings: Findings) -> Clause:
    """How many methods are significantly worse than the baseline, which is the best of them.

    Empty if none was compared with it.
    """
    compared = [standing for standing in group if standing.shared_seeds]
    if not compared:
        return Clause("")
    worse = [standing for standing in compared if standing.significant]
    text = OTHERS_WORSE.format(others=_others_are(len(worse), len(compared)))
    return Clause(text, [findings.claim(standing, variation) for standing in worse])


def _score(variation: str, standing: Standing, findings: Findings) -> str:
    """A mean score, followed by R² and MAE if models predict numbers."""
    text = findings.score_text(standing.mean)
    errors = findings.errors.get((variation, standing.method))
    if not errors:
        return text
    return f"{text} ({errors})"


def _gain(standing: Standing) -> str:
    """How much better a method is than the baseline, with its interval if these are numbers."""
    row = standing.row or {}
    if row["difference"] is None:
        return "better" if standing.benefit > 0 else "no better"
    if standing.benefit_ends is None:
        return GAIN_WITHOUT_INTERVAL.format(benefit=standing.benefit)
    low, high = standing.benefit_ends
    return GAIN.format(benefit=standing.benefit, low=low, high=high)


def _others_are(count: int, total: int) -> str:
    """How many of the other methods, as the subject of a sentence, with its verb.

    >>> _others_are(2, 2), _others_are(1, 3), _others_are(0, 3)
    ('both others are', '1 of the 3 others is', 'none of the 3 others is')
    >>> _others_are(1, 1), _others_are(0, 1)
    ('the other is', 'the other is not')
    """
    if total == 1 and count == 0:
        return "the other is not"
    verb = "are" if count > 1 else "is"
    return f"{others_of(count, total)} {verb}"
