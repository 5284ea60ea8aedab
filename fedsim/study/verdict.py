"""The verdict of a comparison: a headline, a line of statistics, and at most four sentences.

They are about one variation, that of which `compare.question` asks. All others are in the table,
whose column `verdict` has a result for every row.
"""

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import fedsim.fleet  # noqa: F401 (importing a family registers its members)
from fedsim.compose import FAMILIES
from fedsim.fleet.selection import FEEDBACK
from fedsim.study.attack_findings import breakdown_findings, worst_case_findings
from fedsim.study.claims import Claim, Finding
from fedsim.study.cost_axes import AXES, is_about_cost
from fedsim.study.cost_findings import cost_findings
from fedsim.study.edges import edge_lines, ranges_in
from fedsim.study.findings import Findings
from fedsim.study.headline import claims_of_column, score_finding
from fedsim.study.price import price_findings
from fedsim.study.standings import Standing
from fedsim.study.summary import NOT_RUN, Record, findings_of_fields, grouped, variation_of
from fedsim.study.words import count

STATUS = {"failed": "failed", NOT_RUN: "aggregated no round"}  # of runs without a score
DEPEND = "Cohorts of {kind} depend on {feedback}, so they are not paired between methods."
MAX_SENTENCES = 4  # besides the headline and its statistics


class Verdict(NamedTuple):
    """The verdict of a comparison.

    Attributes:
      standings: methods by variation; each has its entry of the column `verdict`.
      lines: the headline, its statistics if there are any, then the sentences.
      claims: all claims, of the sentences that could be shown and of the column `verdict`.
      edges: the sentences about settings at the edge of their grid or range, shown or not.
      main_number: the number of the headline, behind what it is of; None where it is about none.
    """

    standings: Mapping[str, Sequence[Standing]]
    lines: list[str]
    claims: list[Claim]
    edges: list[str]
    main_number: tuple[str, str] | None


def verdict(findings: Findings, tuned: Sequence[str] = ()) -> Verdict:
    """Return the verdict of a comparison: who is better, by how much, and how sure that is."""
    edges = edge_lines(findings.rows("tuning"), tuned, ranges_in(findings.scenario), findings.words)
    found = _found(findings)
    first, *others = found
    sentences = [
        *without_score_lines(findings.rows("summary"), findings.words),
        *unpaired_lines(findings.scenario),
        *_of_fields(findings),
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
        lines=[first.headline, *statistics, *sentences[:MAX_SENTENCES]],
        claims=claims,
        edges=edges,
        main_number=first.main_number,
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
        *price_findings(findings),
        *about,
        score_finding(findings),
        *others,
    ]


def without_score_lines(summary: Sequence[Record], words: Callable[[str], str]) -> list[str]:
    """Return a sentence that lists methods with runs that failed or aggregated no round, if any."""
    items = []
    by_configuration = grouped(summary, key=lambda run: (run["method"], variation_of(run)))
    for (method, variation), runs in by_configuration.items():
        name = f"{method} with {words(variation)}" if variation else method
        for status, in_words in STATUS.items():
            lost = sum(run.get("status") == status for run in runs)
            if lost:
                items.append(f"{name} ({lost} of {count(len(runs), 'seed')} {in_words})")
    return [f"Without a score: {', '.join(items)}."] if items else []


def unpaired_lines(scenario: Mapping[str, Any] | None) -> list[str]:
    """Return a sentence for every cohort that depends on what clients reported; none for others.

    What clients report depends on the method, and so do such cohorts.
    """
    scenario = scenario or {}
    base = dict(scenario.get("cohort") or {})
    varied = (scenario.get("compare") or {}).get("vary") or {}
    sections = [base]
    for value in varied.get("cohort", ()):
        sections.append(dict(value) if isinstance(value, Mapping) else {"kind": value})
    for kind in varied.get("cohort.kind", ()):
        sections.append({**base, "kind": kind})

    lines = []
    for kind, names in sorted({str(one.get("kind")): _feedback(one) for one in sections}.items()):
        if names:
            words = " and ".join(FEEDBACK[name] for name in names)
            lines.append(DEPEND.format(kind=kind, feedback=words))
    return lines


def _feedback(section: Mapping[str, Any]) -> tuple[str, ...]:
    """What a cohort reads of clients' reports; nothing if it cannot be made."""
    factory = FAMILIES["cohort"].get(str(section.get("kind")))
    if factory is not None:
        parameters = inspect.signature(factory).parameters
        with contextlib.suppress(TypeError, ValueError):
            return factory(**{k: v for k, v in section.items() if k in parameters}).feedback
    return ()


def _of_fields(findings: Findings) -> list[str]:
    asked = [row for row in findings.compared if variation_of(row) == findings.asked]
    return findings_of_fields(findings.runs, findings.words, asked)


def _all_standings(findings: Findings) -> dict[str, list[Standing]]:
    """The standings by variation, those of methods that are not federated last."""
    by_variation = {}
    for variation, group in findings.all_standings.items():
        ranked = findings.standings.get(variation, ())
        others = [standing for standing in group if standing not in ranked]
        by_variation[variation] = [*ranked, *others]
    return by_variation
