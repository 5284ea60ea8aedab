"""The verdict of a comparison: a headline, a line of statistics, and at most four sentences.

They are about one variation, that of which `compare.question` asks. All others are in the table,
whose column `verdict` has a result for every row.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedsim.installed import offered
from fedsim.study.attack_findings import breakdown_findings, worst_case_findings
from fedsim.study.cautions import few_seeds, without_score_lines
from fedsim.study.claims import Claim, Finding
from fedsim.study.cost_axes import AXES, is_about_cost
from fedsim.study.cost_findings import cost_findings
from fedsim.study.findings import Findings
from fedsim.study.headline import claims_of_column, score_finding
from fedsim.study.outer_tenths import ranges_in, tenth_lines
from fedsim.study.outside import outside_lines
from fedsim.study.promotion import spent_lines
from fedsim.study.standings import Standing
from fedsim.study.tuning import edge_lines
from fedsim.study.unpaired import unpaired_lines

MAX_SENTENCES = 4  # besides the headline and its statistics


class Verdict(NamedTuple):
    """The verdict of a comparison.

    Attributes:
      standings: methods by variation; each has its entry of the column `verdict`.
      lines: the headline, its statistics if there are any, then the sentences; last, where a
        search has rungs, what it took, and what fields say.
      claims: all claims, of the sentences that could be shown and of the column `verdict`.
      edges: the sentences about settings at the edge of their grid or range, shown or not.
    """

    standings: Mapping[str, Sequence[Standing]]
    lines: list[str]
    claims: list[Claim]
    edges: list[str]


def verdict(findings: Findings, tuned: Sequence[str] = ()) -> Verdict:
    """Return the verdict of a comparison: who is better, by how much, and how sure that is.

    Args:
      findings: the comparison.
      tuned: the paths that were tuned.
    """
    tuning = findings.rows("tuning")
    ranges = ranges_in(findings.scenario)
    edges = [
        *edge_lines(tuning, tuned, ranges, findings.words),
        *tenth_lines(tuning, ranges, findings.words),
    ]
    found = _found(findings)
    first, *others = found
    sentences = [
        *without_score_lines(findings.rows("summary"), findings.words),
        *_few_seeds(first, findings),
        *unpaired_lines(findings.scenario, findings.compared),
        *outside_lines(findings),
        *(finding.sentence for finding in others if finding.claims),
        *edges,
    ]
    statistics = [first.statistics] if first.statistics else []
    claims: list[Claim] = []
    for finding in found:
        claims += finding.claims
    for variation, group in findings.standings.items():
        if variation != findings.asked:
            claims += claims_of_column(group, variation, findings)
    return Verdict(
        standings=_all_standings(findings),
        lines=[
            first.headline,
            *statistics,
            *sentences[:MAX_SENTENCES],
            *spent_lines(tuning),
            *_of_fields(findings),
        ],
        claims=claims,
        edges=edges,
    )


def _found(findings: Findings) -> list[Finding]:
    """Everything that is found, what the comparison is about first."""
    if not findings.standings:
        return [Finding("Nothing was run")]
    every = [standing for group in findings.standings.values() for standing in group]
    if all(standing.mean is None for standing in every):
        return [Finding("No run has a score")]

    about: list[Finding] = []
    others: list[Finding] = []
    for axis in AXES:
        is_topic = is_about_cost(axis, findings.scenario)
        (about if is_topic else others).extend(cost_findings(axis, findings))
    return [
        *breakdown_findings(findings),
        *worst_case_findings(findings),
        *about,
        score_finding(findings),
        *others,
    ]


def _of_fields(findings: Findings) -> list[str]:
    """What fields say of a comparison."""
    lines = []
    for said in offered("FINDINGS", "of_comparison"):
        lines += said(findings)
    return lines


def _few_seeds(first: Finding, findings: Findings) -> list[str]:
    """That no difference can be significant, unless the headline says so."""
    seeds = max((row["seeds"] for row in findings.compared), default=0)
    text = few_seeds(seeds, findings.tests)
    if not text or "too few" in first.text:
        return []
    return [text]


def _all_standings(findings: Findings) -> dict[str, list[Standing]]:
    """The standings by variation, those of methods that are not federated last."""
    by_variation = {}
    for variation, outside in findings.outside.items():
        ranked = findings.standings.get(variation, ())
        unranked = [standing for standing in outside if standing not in ranked]
        by_variation[variation] = [*ranked, *unranked]
    return by_variation
