"""Sentences about every variation: which methods are better or worse than the baseline."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from fedsim.study.claims import Priority, Sentence
from fedsim.study.findings import Findings
from fedsim.study.standings import (
    BETTER,
    BETTER_FEW_SEEDS,
    FAILED,
    LEVEL,
    SIGNIFICANTLY_BETTER,
    SIGNIFICANTLY_WORSE,
    WORSE,
    WORSE_FEW_SEEDS,
    Standing,
)
from fedsim.study.words import difference_in_words


class Title(NamedTuple):
    """How a sentence that lists methods begins, and how important it is."""

    text: str
    priority: Priority


# outcome of the comparison with the baseline -> title of the methods with that outcome
TITLES = {
    SIGNIFICANTLY_BETTER: Title(
        "Significantly better than {baseline} (p < 0.05 after Holm)",
        Priority.SIGNIFICANT,
    ),
    SIGNIFICANTLY_WORSE: Title(
        "Significantly worse than {baseline} (p < 0.05 after Holm)",
        Priority.SIGNIFICANT,
    ),
    BETTER: Title(
        "Better than {baseline} by the 95 % interval, but not after Holm",
        Priority.UNCERTAIN,
    ),
    WORSE: Title(
        "Worse than {baseline} by the 95 % interval, but not after Holm",
        Priority.UNCERTAIN,
    ),
    BETTER_FEW_SEEDS: Title(
        "Better than {baseline} by the 95 % interval, with too few seeds for significance",
        Priority.UNCERTAIN,
    ),
    WORSE_FEW_SEEDS: Title(
        "Worse than {baseline} by the 95 % interval, with too few seeds for significance",
        Priority.UNCERTAIN,
    ),
    LEVEL: Title("No significant difference from {baseline}", Priority.LEVEL),
}
DIVERGED = "Diverged under all seeds"

LIST = "{title}: {items}."
SAME_VARIATION = "With {variation}: the same scores as with {earlier}."
SAME_METHODS = "The same scores as with {variations}: {methods}."
AT_CHANCE = "At chance level: {methods}."
SEVERAL_AT_CHANCE = "At chance level: {methods}; they are not compared with each other."
ALL_FAILED = "Failed under all seeds, and so not compared: {methods}."


def standing_lines(findings: Findings) -> list[Sentence]:
    """Return the sentences about every variation.

    Scores that are the same under several variations are reported under the first one.
    """
    first_variations = _first_variations(findings.distinct)
    lines: list[Sentence] = []
    for variation, group in findings.distinct.items():
        prefix = findings.prefix(variation)
        for line in _variation_lines(variation, group, first_variations, findings):
            lines.append(line.after(prefix))

    for variation, earlier in findings.repeats.items():
        words = findings.words(variation)
        text = SAME_VARIATION.format(variation=words, earlier=findings.words(earlier))
        lines.append(Sentence(text, Priority.REPEATED))
    return lines


def _first_variations(by_variation: Mapping[str, Sequence[Standing]]) -> dict[Hashable, str]:
    """The first variation of every comparison, by `Standing.test`."""
    first: dict[Hashable, str] = {}
    for variation, group in by_variation.items():
        for standing in group:
            if standing.compared:
                first.setdefault(standing.test, variation)
    return first


def _variation_lines(
    variation: str,
    group: Sequence[Standing],
    first_variations: Mapping[Hashable, str],
    findings: Findings,
) -> list[Sentence]:
    """The sentences about one variation, without its name.

    Args:
      variation: the variation.
      group: its methods.
      first_variations: the first variation of every comparison, by `Standing.test`.
      findings: the comparison.
    """
    new = []
    repeated = []
    for standing in sorted(group, key=lambda s: -s.benefit):
        if not standing.compared:
            continue
        if first_variations[standing.test] == variation:
            new.append(standing)
        else:
            repeated.append(standing)

    return [
        *_outcome_lines(variation, new, findings),
        *_repeated_lines(repeated, first_variations, findings),
        *_uncompared_lines(group),
    ]


def _outcome_lines(
    variation: str, standings: Sequence[Standing], findings: Findings
) -> list[Sentence]:
    """A sentence for every outcome, with the methods that have it."""
    lines = []
    for outcome, title in TITLES.items():
        listed = [s for s in standings if s.outcome == outcome]
        if not listed:
            continue
        text = _list(title.text.format(baseline=findings.baseline), listed)
        significant = [s for s in listed if s.significant]
        claims = [findings.claim(s, variation) for s in significant]
        lines.append(Sentence(text, title.priority, claims))

    diverged = [s for s in standings if s.diverged and not s.significant]
    if diverged:
        lines.append(Sentence(_list(DIVERGED, diverged), Priority.LOST))
    return lines


def _repeated_lines(
    standings: Sequence[Standing], first_variations: Mapping[Hashable, str], findings: Findings
) -> list[Sentence]:
    """A sentence about methods with the same scores as under an earlier variation."""
    if not standings:
        return []
    earlier = [findings.words(first_variations[s.test]) for s in standings]
    text = SAME_METHODS.format(
        variations=" and ".join(dict.fromkeys(earlier)),
        methods=_names(standings),
    )
    return [Sentence(text, Priority.REPEATED)]


def _uncompared_lines(group: Sequence[Standing]) -> list[Sentence]:
    """Sentences about methods that are at chance level, and about those that failed."""
    lines = []
    guessing = [s for s in group if s.chance]
    if guessing:
        template = AT_CHANCE if len(guessing) == 1 else SEVERAL_AT_CHANCE
        lines.append(Sentence(template.format(methods=_names(guessing)), Priority.CHANCE))

    failed = [s for s in group if s.row is not None and s.outcome == FAILED]
    if failed:
        lines.append(Sentence(ALL_FAILED.format(methods=_names(failed)), Priority.LOST))
    return lines


def _names(standings: Sequence[Standing]) -> str:
    return ", ".join(standing.method for standing in standings)


def _list(title: str, standings: Sequence[Standing]) -> str:
    """A title and the methods below it; those with the same scores are one item."""
    items: dict[Hashable, list[Standing]] = {}
    for standing in standings:
        items.setdefault(standing.test, []).append(standing)
    return LIST.format(title=title, items=", ".join(map(_item, items.values())))


def _item(same: Sequence[Standing]) -> str:
    """Methods with the same scores: their difference to the baseline, and how often it is a gain.

    `fedadam (+0.113, 95 % CI +0.103 to +0.123; better in 7 of 7 seeds)`
    """
    first = same[0]
    row = first.row or {}
    notes = []
    if row["difference"] is not None:
        notes.append(difference_in_words(row["difference"], row["ci_low"], row["ci_high"]))
    notes.append(first.seeds_in_words)
    if row["diverged"]:
        notes.append(f"{row['diverged']} of {row['seeds']} runs diverged")
    if len(same) > 1:
        notes.append("identical scores")
    methods = " and ".join(standing.method for standing in same)
    return f"{methods} ({'; '.join(notes)})"
