"""The verdict of a comparison: a headline, and at most five more sentences.

All sentences that the tables support are made, each with the claims that it makes. The most
important ones are selected, and stay in the order in which they were made. What is left out can be
read in the tables, most of it in the column `verdict`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedsim.study.attack_lines import breakdown_lines, worst_case_lines
from fedsim.study.cautions import few_seeds_lines, not_run_lines
from fedsim.study.claims import Claim, Priority, Sentence, claims_of
from fedsim.study.cost_axes import leads
from fedsim.study.cost_lines import cost_lines
from fedsim.study.findings import Findings
from fedsim.study.headline import headline
from fedsim.study.standing_lines import standing_lines
from fedsim.study.standings import Standing
from fedsim.study.tuning import edge_lines, setting_lines
from fedsim.study.unpaired import unpaired

MAX_SENTENCES = 5  # after the headline


class Verdict(NamedTuple):
    """The verdict of a comparison.

    Attributes:
      standings: methods by variation; each knows its cell of the column `verdict`.
      lines: the selected sentences, in the order in which they are read.
      claims: the claims of all sentences, selected or not.
      edges: the sentences about settings at the edge of their grid, selected or not.
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
    edges = edge_lines(tuning, tuned)
    sentences = [*comparison_lines(findings), *setting_lines(tuning), *edges]
    return Verdict(
        standings=findings.standings,
        lines=most_important(sentences),
        claims=claims_of(sentences),
        edges=edges,
    )


def most_important(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the headline and the most important other sentences, in their order.

    At most five follow the headline. Sentences of one priority are selected together or not at all,
    and none is selected that is less important than one that is left out.

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

    What the comparison is about comes first: costs, if what varies is chosen to save them.
    """
    leading_costs: list[Sentence] = []
    other_costs: list[Sentence] = []
    for axis, lines in cost_lines(findings).items():
        if leads(axis, findings.scenario):
            leading_costs += lines
        else:
            other_costs += lines

    first_score, *other_scores = score_lines(findings)
    return [
        *breakdown_lines(findings),
        *leading_costs,
        first_score,
        *other_costs,
        *other_scores,
    ]


def score_lines(findings: Findings) -> list[Sentence]:
    """Return all sentences about scores: the worst attacks, who leads, each variation, cautions."""
    summary = findings.rows("summary")
    not_run = not_run_lines(summary, findings.words)
    if not findings.standings:
        return [Sentence("Nothing was run."), *not_run]
    if not _any_score(findings.standings):
        return [Sentence("No run has a score."), *not_run]
    return [
        *worst_case_lines(findings),
        headline(findings),
        *standing_lines(findings),
        *not_run,
        *few_seeds_lines(findings),
        *unpaired(findings.scenario, findings.compared),
    ]


def _any_score(by_variation: Mapping[str, Sequence[Standing]]) -> bool:
    for group in by_variation.values():
        if any(standing.mean is not None for standing in group):
            return True
    return False
