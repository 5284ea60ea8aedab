"""The verdict of a comparison: a headline, and at most five more sentences.

Every sentence that the tables support is generated, with the claims that it makes; only the most
important ones are shown. The tables hold the rest, most of it in the column `verdict` of the
printed table.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedsim.study.attack_lines import breakdown_lines, worst_case_lines
from fedsim.study.cautions import few_seeds_lines, not_run_lines
from fedsim.study.claims import Claim, Priority, Sentence, claims_of
from fedsim.study.cost_axes import is_about_cost
from fedsim.study.cost_lines import cost_lines
from fedsim.study.findings import Findings
from fedsim.study.headline import headline
from fedsim.study.outer_tenths import ranges_in, tenth_lines
from fedsim.study.outside import outside_lines
from fedsim.study.standing_lines import standing_lines
from fedsim.study.standings import Standing
from fedsim.study.tuning import edge_lines, setting_lines
from fedsim.study.unpaired import unpaired_lines

MAX_SENTENCES = 5  # besides the headline


class Verdict(NamedTuple):
    """The verdict of a comparison.

    Attributes:
      standings: methods by variation; each has its entry of the column `verdict`.
      lines: the selected sentences, in the order in which they are read.
      claims: the claims of all sentences, selected or not.
      edges: the sentences about settings at the edge of their grid or range, selected or not.
    """

    standings: Mapping[str, Sequence[Standing]]
    lines: list[Sentence]
    claims: list[Claim]
    edges: list[Sentence]


def verdict(findings: Findings, tuned: Sequence[str] = ()) -> Verdict:
    """Return the verdict of a comparison: who leads, by how much, and how sure that is.

    Args:
      findings: the comparison.
      tuned: the paths that were tuned.
    """
    tuning = findings.rows("tuning")
    ranges = ranges_in(findings.scenario)
    edges = [*edge_lines(tuning, tuned, ranges), *tenth_lines(tuning, ranges)]
    sentences = [*comparison_lines(findings), *setting_lines(tuning), *edges]
    return Verdict(
        standings=_all_standings(findings),
        lines=most_important(sentences),
        claims=claims_of(sentences),
        edges=edges,
    )


def _all_standings(findings: Findings) -> dict[str, list[Standing]]:
    """The standings by variation, those of methods that are not federated last."""
    by_variation = {}
    for variation, outside in findings.outside.items():
        ranked = findings.standings.get(variation, ())
        unranked = [standing for standing in outside if standing not in ranked]
        by_variation[variation] = [*ranked, *unranked]
    return by_variation


def most_important(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the headline and the most important other sentences, in the order given.

    There are at most five besides the headline. The sentences of a priority are shown together or
    not at all, the most important priorities first, until one no longer fits.

    >>> few = [Sentence("A.", Priority.SIGNIFICANT), Sentence("B.", Priority.LEVEL)]
    >>> most_important(few)
    ['A.', 'B.']
    >>> most_important([*few, *[Sentence("C.", Priority.LEVEL)] * 4])
    ['A.']
    """
    counts = Counter(sentence.priority for sentence in sentences)
    space = MAX_SENTENCES + counts[Priority.HEADLINE]
    selected: set[Priority] = set()
    for priority in sorted(counts):
        space -= counts[priority]
        if space < 0:
            break
        selected.add(priority)
    return [sentence for sentence in sentences if sentence.priority in selected]


def comparison_lines(findings: Findings) -> list[Sentence]:
    """Return all sentences about breakdown, scores and costs.

    Breakdown comes first. Costs come before the scores if the methods that are compared save costs,
    else after the headline.
    """
    leading_costs: list[Sentence] = []
    other_costs: list[Sentence] = []
    for axis, lines in cost_lines(findings).items():
        if is_about_cost(axis, findings.scenario):
            leading_costs += lines
        else:
            other_costs += lines

    return [
        *breakdown_lines(findings),
        *leading_costs,
        *headlines(findings),
        *other_costs,
        *score_details(findings),
    ]


def headlines(findings: Findings) -> list[Sentence]:
    """Return the headline, after what is left under the worst attacks."""
    if not findings.standings:
        return [Sentence("Nothing was run.", Priority.HEADLINE)]
    if not _any_score(findings.standings):
        return [Sentence("No run has a score.", Priority.HEADLINE)]
    return [*worst_case_lines(findings), headline(findings)]


def score_details(findings: Findings) -> list[Sentence]:
    """Return the sentences about each variation, and what to know before reading them."""
    not_run = [*not_run_lines(findings.rows("summary"), findings.words), *outside_lines(findings)]
    if not _any_score(findings.standings):
        return not_run
    return [
        *standing_lines(findings),
        *not_run,
        *few_seeds_lines(findings),
        *unpaired_lines(findings.scenario, findings.compared),
    ]


def _any_score(by_variation: Mapping[str, Sequence[Standing]]) -> bool:
    for group in by_variation.values():
        if any(standing.mean is not None for standing in group):
            return True
    return False
