"""The headline of a comparison: who leads, by how much, and how sure that is."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedsim.study.claims import BETTER, HOLDS, Claim, Sentence
from fedsim.study.holding import holds
from fedsim.study.pairing import SURE
from fedsim.study.standings import Standing
from fedsim.study.statistics import smallest_p
from fedsim.study.summary import Record, in_words, is_share, larger_is_better
from fedsim.study.words import attacks


class Page(NamedTuple):
    """What all sentences of a page know.

    Attributes:
      summary: rows of `summary.csv`.
      baseline: what methods are compared with.
      metric: that is compared.
      score: `final`, `best` or `mean_last_k`.
      words: variations in words.
      start: the score of the untrained models, or of guessing, by variation.
      errors: R² and MAE in words, by variation and method.
      tests: how many tests Holm's adjustment runs over.
    """

    summary: Sequence[Record]
    baseline: str
    metric: str
    score: str
    words: Mapping[str, str]
    start: Mapping[str, float]
    errors: Mapping[tuple[str, str], str]
    tests: int

    @property
    def name(self) -> str:
        """The metric in words."""
        return in_words(self.metric)

    def text(self, value: float | None) -> str:
        """A mean score: of a share three decimals, of others three digits."""
        if value is None or not math.isfinite(value):
            return "without bound"
        return f"{value:.3f}" if is_share(self.metric) else f"{value:.3g}"

    def too_few(self, standing: Standing) -> bool:
        """Whether no difference under so few seeds could be sure, whatever had come out."""
        return standing.row is None or smallest_p(standing.row["seeds"]) * max(self.tests, 1) >= SURE

    def claim(self, standing: Standing, variant: str) -> Claim:
        """That a method surely differs from the baseline."""
        p = standing.row["p_adjusted"] if standing.row else 1.0
        return Claim(BETTER, standing.method, self.baseline, variant, p)


Group = Sequence[Standing]
"""methods under one variation, the best first"""


def headline(by_variant: Mapping[str, Group], page: Page) -> Sentence:
    """Who leads; where something varies: who leads where the baseline does worst, and where it does best."""
    if len(by_variant) == 1 and len(next(iter(by_variant.values()))) > 1:
        ((variant, group),) = by_variant.items()
        line = _leading(variant, group, page)
        text = f"{line}{_lost(group)}."
        return Sentence(f"N{text[1:]}" if group[0].chance else text, line.claims)
    if len({standing.method for group in by_variant.values() for standing in group}) == 1:
        return Sentence(_alone(by_variant, page))
    leaders = {variant: group[0] for variant, group in by_variant.items() if group[0].mean is not None}
    worth = lambda variant: _worth(by_variant[variant], page)
    hard = min(leaders, key=worth)
    easy = max(leaders, key=worth)
    first = leaders[hard]
    start = subject = ""
    if {leader.method for leader in leaders.values()} == {first.method} and not any(s.chance for s in leaders.values()):
        which = "both" if len(by_variant) == 2 else f"all {len(by_variant)}"
        start = f"{first.method}{'' if first.row else ', the baseline,'} has the best mean in {which} variations: "
        subject = "it"
    lines = [_leading(hard, by_variant[hard], page, subject)]
    text = f"with {page.words[hard]}, {lines[0]}"
    if easy != hard:
        lines.append(_brief(easy, by_variant[easy], page, subject))
        text += f"; with {page.words[easy]}, {lines[1]}"
    claims = [claim for line in lines for claim in line.claims]
    return Sentence(f"{start}{text}." if start else f"W{text[1:]}.", claims)


def _alone(by_variant: Mapping[str, Group], page: Page) -> str:
    """What the only method reaches: where it does best, and where it does worst."""
    means = {variant: group[0].mean for variant, group in by_variant.items() if group[0].mean is not None}
    ranked = sorted(means, key=lambda variant: means[variant], reverse=larger_is_better(page.metric))
    method = next(iter(by_variant.values()))[0].method
    ends = []
    for variant in dict.fromkeys([ranked[0], ranked[-1]]):
        where = f" with {page.words[variant]}" if variant else ""
        ends.append(f"{page.text(means[variant])}{_errors(variant, method, page)}{where}")
    return f"{method} ends with {page.name} {' and '.join(ends)}."


def _lost(group: Group) -> str:
    """Methods all of whose runs diverged, as the end of a sentence."""
    names = [s.method for s in group if s.diverged]
    return f"; {', '.join(names)} diverged under all seeds" if names else ""


def _worth(group: Group, page: Page) -> float:
    """How well the baseline does, or without it the best: larger is better."""
    mean = next((s.mean for s in group if s.method == page.baseline and s.mean is not None), group[0].mean)
    if mean is None:
        return 0.0
    return mean if larger_is_better(page.metric) else -mean


def _leading(variant: str, group: Group, page: Page, subject: str = "") -> Sentence:
    """The best method under one variation: its score, what it gains on the baseline, and how sure that is.

    Args:
      variant: as in the column.
      group: its methods, the best first.
      page: what the others know.
      subject: the best, where it was named before.
    """
    best = group[0]
    base = _base(group, page)
    if best.chance:
        above = f"no method is above chance level: {best.method}, the best, has"
        return Sentence(f"{above} {page.name} {page.text(best.mean)}")
    who = subject or best.method
    verb, claims = _verb(variant, group, page)
    reaches = f"{page.name} {page.text(best.mean)}{_errors(variant, best.method, page)}"
    if best.row is None or base is None or base.mean is None:
        sure, more = _worse(variant, group, page)
        kept = ", the baseline," if best.method == page.baseline and sure and not subject else ""
        return Sentence(f"{who}{kept} {verb} with {reaches}{f'; {sure}' if sure else ''}", [*claims, *more])
    guess = ", which is at chance level" if base.chance else ""
    against = f"{page.text(base.mean)}{_errors(variant, base.method, page)} of {page.baseline}{guess}"
    start = f"{who} {verb} with {reaches} against {against}"
    if best.sure:
        p = f"p = {best.row['p_adjusted']:.2g} after Holm"
        return Sentence(f"{start} ({_gain(best)}; {best.seeds}, {p})", [*claims, page.claim(best, variant)])
    if best.clear:
        doubt = ", too few to be sure" if page.too_few(best) else "; by the 95 % interval, not after Holm"
        return Sentence(f"{start} ({_gain(best)}; {best.seeds}{doubt})", claims)
    return Sentence(f"{start}, but cannot be told apart from it ({_gain(best)}; {best.seeds})", claims)


def _brief(variant: str, group: Group, page: Page, subject: str) -> Sentence:
    """The best method under one variation and its score, in few words."""
    best = group[0]
    base = _base(group, page)
    if best.chance:
        return Sentence("no method is above chance level")
    start = f"{subject or best.method} leads with {page.text(best.mean)}{_errors(variant, best.method, page)}"
    if best.row is None or base is None or base.mean is None:
        sure, claims = _worse(variant, group, page)
        return Sentence(f"{start} ({sure})" if sure else start, claims)
    against = f"{page.text(base.mean)}{_errors(variant, base.method, page)} of {page.baseline}"
    if best.sure:
        return Sentence(f"{start} against {against}", [page.claim(best, variant)])
    return Sentence(f"{start} against {against}, which is not sure")


def _base(group: Group, page: Page) -> Standing | None:
    return next((s for s in group if s.method == page.baseline), None)


def _verb(variant: str, group: Group, page: Page) -> tuple[str, list[Claim]]:
    """`holds` under an attack that leaves the best at least half of its gain for sure, else `leads`."""
    method = group[0].method
    if not attacks(variant):
        return "leads", []
    p = holds(page.summary, method, variant, page.score, page.start, len(group))
    return ("holds", [Claim(HOLDS, method, "", variant, p)]) if p < SURE else ("leads", [])


def _worse(variant: str, group: Group, page: Page) -> tuple[str, list[Claim]]:
    """How many of the others are surely worse than the baseline, which is the best of them; nothing where none is compared."""
    rivals = [s for s in group if s.row and s.row["seeds"]]
    sure = [s for s in rivals if s.sure]
    return f"{_of(len(sure), len(rivals))} surely worse" if rivals else "", [page.claim(s, variant) for s in sure]


def _errors(variant: str, method: str, page: Page) -> str:
    """R² and MAE of a method, behind its loss."""
    text = page.errors.get((variant, method))
    return f" ({text})" if text else ""


def _gain(standing: Standing) -> str:
    """How much better than the baseline, with its interval, as far as these are numbers."""
    row = standing.row or {}
    if row["difference"] is None:
        return "better" if standing.benefit > 0 else "no better"
    if row["ci_low"] is None:
        return f"{standing.benefit:.3g} better"
    low, high = row["ci_low"], row["ci_high"]
    if not larger_is_better(row["metric"]):
        low, high = -high, -low
    return f"{standing.benefit:.3g} better, 95 % {low:.3g} to {high:.3g}"


def _of(count: int, total: int) -> str:
    """So many of the others, as the subject of a sentence.

    >>> _of(2, 2), _of(1, 3), _of(0, 3)
    ('all 2 others are', '1 of the 3 others is', 'none of the 3 others is')
    """
    if count == total:
        return "the other is" if total == 1 else f"all {total} others are"
    some = f"{count or 'none'} of the {total} others" if total > 1 else "the other"
    return f"{some} {'are' if count > 1 else 'is' if total > 1 else 'is not'}"
