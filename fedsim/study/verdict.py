"""A comparison in sentences: a headline, and at most five more; what they leave out stands in the
column `verdict`.

Every sentence is made, and with it what it claims; then the weightiest are told, in the order in
which they were made.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.study.attack_lines import breakdown_lines, worst_case_lines
from fedsim.study.claims import Claim, Sentence, Weight, claims_of
from fedsim.study.cost_axes import leads
from fedsim.study.cost_lines import cost_lines
from fedsim.study.findings import Findings
from fedsim.study.headline import headline
from fedsim.study.not_run import not_run_lines
from fedsim.study.pairing import SURE, same_runs
from fedsim.study.standings import (
    BETTER,
    BETTER_OF_FEW,
    FAILED,
    LEVEL,
    NOT_COMPARED,
    SURELY_BETTER,
    SURELY_WORSE,
    WORSE,
    WORSE_OF_FEW,
    Standing,
)
from fedsim.study.statistics import smallest_p
from fedsim.study.summary import Record
from fedsim.study.tuning import edges, settings
from fedsim.study.unpaired import unpaired

MOST = 5  # sentences behind the headline

TITLES = {  # outcome -> how a sentence about methods with it begins, and how much it counts
    SURELY_BETTER: ("Surely better than {} (p < 0.05 after Holm)", Weight.SURE),
    SURELY_WORSE: ("Surely worse than {} (p < 0.05 after Holm)", Weight.SURE),
    BETTER: ("Better than {} by the 95 % interval, not after Holm", Weight.UNSURE),
    WORSE: ("Worse than {} by the 95 % interval, not after Holm", Weight.UNSURE),
    BETTER_OF_FEW: ("Better than {} by the 95 % interval, too few seeds to be sure", Weight.UNSURE),
    WORSE_OF_FEW: ("Worse than {} by the 95 % interval, too few seeds to be sure", Weight.UNSURE),
    LEVEL: ("Not told apart from {}", Weight.LEVEL),
}
LISTED = "{title}: {items}."
ITEM = "{methods} ({difference}{seeds}{lost}{alike})"
POWER = (
    "With {seeds} no difference can be called sure: of {of} the smallest p that a two-sided test "
    "can give is {least:.3g}. {needed} seeds could."
)


class Verdict(NamedTuple):
    """What is said of a comparison.

    Attributes:
      standings: of the methods by variation: the column `verdict` of tables that are shown.
      lines: the headline, or what the comparison is about before it, and at most five more
        sentences.
      claims: of all sentences, those that are left to the tables too.
      edges: sentences about settings at the edge of what was tried, told or not.
    """

    standings: Mapping[str, Sequence[Standing]]
    lines: list[Sentence]
    claims: list[Claim]
    edges: list[Sentence]


def verdict(found: Findings, tuned: Sequence[str] = ()) -> Verdict:
    """A comparison in a few sentences: who leads, by how much, how sure.

    Args:
      found: what the comparison came to.
      tuned: paths that were tuned.
    """
    at_edges = edges(found.rows("tuning"), tuned)
    made = [*sentences(found), *settings(found.rows("tuning")), *at_edges]
    return Verdict(found.standings, told(made), claims_of(made), at_edges)


def told(made: Sequence[Sentence]) -> list[Sentence]:
    """The headline and the weightiest of the others, as they stand: as many as five, those of one
    weight all or none.

    >>> sure = [Sentence("A.", Weight.SURE), Sentence("B.", Weight.SURE)]
    >>> made = [*sure, Sentence("C.", Weight.LEVEL)]
    >>> told(made)[-1], len(told([*made, *sure * 2]))
    ('C.', 0)
    """
    counts = Counter(sentence.weight for sentence in made)
    room = MOST + counts[Weight.HEADLINE]
    kept = set()
    for weight in sorted(counts):
        room -= counts[weight]
        if room < 0:
            break
        kept.add(weight)
    return [sentence for sentence in made if sentence.weight in kept]


def sentences(found: Findings) -> list[Sentence]:
    """All that can be said of a comparison, what it is about first."""
    falls = breakdown_lines(found)
    first: list[Sentence] = []
    after: list[Sentence] = []
    for axis, spent in cost_lines(found).items():
        (first if leads(axis, found.scenario) else after).extend(spent)
    lines = _compared(found)
    return [*falls, *first, *lines[:1], *after, *lines[1:]]


def _compared(found: Findings) -> list[Sentence]:
    """The scores: what attacks leave, who leads, every variation, and what to know of the seeds."""
    summary = found.rows("summary")
    not_run = not_run_lines(summary, found.words)
    if not any(s.mean is not None for group in found.standings.values() for s in group):
        return [
            Sentence("No run has a score." if found.standings else "Nothing was run."),
            *not_run,
        ]

    repeats = _repeats(summary, found.score)
    by_variant = {name: group for name, group in found.standings.items() if name not in repeats}
    lines = worst_case_lines(found)  # what attacks leave is what they were tried for
    lines.append(headline(by_variant, found))
    before: dict[Any, str] = {}
    for name, group in by_variant.items():
        lines += [line.behind(found.start_of(name)) for line in _group(name, group, found, before)]
    for name, of in repeats.items():
        text = f"With {found.words(name)}: the same scores as with {found.words(of)}."
        lines.append(Sentence(text, Weight.REPEATED))
    return [*lines, *not_run, *_power(found), *unpaired(found.scenario, found.compared)]


def _repeats(summary: Sequence[Record], score: str) -> dict[str, str]:
    """Variations in which every method has the same scores as in an earlier one, which is told
    instead.
    """
    runs: dict[str, dict[str, list[Record]]] = {}
    for run in summary:
        runs.setdefault(run.get("variant") or "", {}).setdefault(run["method"], []).append(run)
    first: dict[Any, str] = {}
    repeats = {}
    for name, methods in runs.items():
        scored = any(run.get(score) is not None for some in methods.values() for run in some)
        content = frozenset((method, same_runs(some, score)) for method, some in methods.items())
        if scored and first.setdefault(content, name) != name:
            repeats[name] = first[content]
    return repeats


def _group(
    name: str, group: Sequence[Standing], found: Findings, before: dict[Any, str]
) -> Iterator[Sentence]:
    """Sentences about one variation: what is surely better and worse, what leans, what is level, at
    chance, failed.

    Args:
      name: of the variation.
      group: its standings.
      found: what the comparison came to.
      before: variation by test, of what was told before; what is told here is added.
    """
    compared = sorted((s for s in group if _is_compared(s)), key=lambda s: -s.benefit)
    again = [s for s in compared if before.get(s.test, name) != name]
    compared = [s for s in compared if s not in again]
    before |= {s.test: name for s in compared}

    for outcome, (title, weight) in TITLES.items():
        some = [s for s in compared if s.outcome == outcome]
        claims = [found.claim(s, name) for s in some if s.sure]
        yield from _listed(title.format(found.baseline), some, weight, claims)
    lost = [s for s in compared if s.diverged and not s.sure]
    yield from _listed("Diverged under all seeds", lost, Weight.LOST)

    if again:
        where = " and ".join(dict.fromkeys(found.words(before[s.test]) for s in again))
        names = ", ".join(s.method for s in again)
        yield Sentence(f"The same scores as with {where}: {names}.", Weight.REPEATED)
    guessing = [s.method for s in group if s.chance]
    if guessing:
        several = "; they are not compared with each other" if len(guessing) > 1 else ""
        yield Sentence(f"At chance level: {', '.join(guessing)}{several}.", Weight.CHANCE)
    failed = [s.method for s in group if s.row is not None and s.outcome == FAILED]
    if failed:
        yield Sentence(
            f"Failed under all seeds, compared with nothing: {', '.join(failed)}.", Weight.LOST
        )


def _is_compared(standing: Standing) -> bool:
    """Whether a method was compared with the baseline under one seed or more."""
    return (
        standing.row is not None and standing.row["seeds"] > 0 and standing.outcome != NOT_COMPARED
    )


def _listed(
    title: str, some: Sequence[Standing], weight: Weight, claims: Sequence[Claim] = ()
) -> Iterator[Sentence]:
    """A title and the methods below it, as far as there are any; those with the same scores are one
    item.
    """
    items: dict[Any, list[Standing]] = {}
    for standing in some:
        items.setdefault(standing.test, []).append(standing)
    if items:
        yield Sentence(
            LISTED.format(title=title, items=", ".join(map(_item, items.values()))), weight, claims
        )


def _item(same: Sequence[Standing]) -> str:
    """A method with its difference, its interval, and how often it was better; several with the
    same scores as one.
    """
    row = same[0].row or {}
    no_interval = (
        row["ci_low"] is None or row["ci_low"] == row["ci_high"]
    )  # of width 0 where all scores are the same
    ends = "" if no_interval else f", 95 % {row['ci_low']:+.3g} to {row['ci_high']:+.3g}"
    return ITEM.format(
        methods=" and ".join(s.method for s in same),
        difference="" if row["difference"] is None else f"{row['difference']:+.3g}{ends}; ",
        seeds=same[0].seeds,
        lost=f"; {row['diverged']} of {row['seeds']} runs diverged" if row["diverged"] else "",
        alike="; the same scores" if len(same) > 1 else "",
    )


def _power(found: Findings) -> list[Sentence]:
    """What so few seeds could not have shown, whatever had come out."""
    rows = [row for row in found.compared if row["seeds"]]
    if not rows:
        return []
    seeds = max(row["seeds"] for row in rows)
    tests = max(found.tests, 1)
    least = smallest_p(seeds) * tests
    if least < SURE:
        return []
    text = POWER.format(
        seeds=f"{seeds} seed{'s' * (seeds > 1)}",
        of=f"{found.tests} comparisons" if found.tests > 1 else "one comparison",
        least=min(least, 1),
        needed=next(n for n in range(2, 64) if smallest_p(n) * tests < SURE),
    )
    return [Sentence(text, Weight.CAUTION)]
