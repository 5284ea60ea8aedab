"""Sentences about the baselines that are not federated methods, and so have no place in a ranking.

One trains on the pooled samples of all clients, in another one every client trains alone.
"""

import statistics
from collections.abc import Sequence

from fedsim.study.claims import Priority, Sentence
from fedsim.study.findings import Findings
from fedsim.study.standings import Standing
from fedsim.study.summary import NOT_FEDERATED, OWN, Record, distinct, in_words, values_of
from fedsim.study.words import difference_in_words
from fedsim.types.client import ALONE, POOLED

REMARKS = {
    POOLED: "{method} is a baseline, not a federated method: it trains on the pooled samples.",
    ALONE: "{method} is a baseline, not a federated method: every client trains alone, and "
    "{scored}.",
}
SCORED = "on their own test samples their models have {metric} {own:.4g}"
NOT_SCORED = "data.client_test would score their models"

ON_POOLED_DATA = "{method} trains on pooled data and is not a federated method: {metric} {scores}."
DIFFERENCE = "{score} (against {baseline}: {difference})"
RANGE = "{lowest} to {highest}"
OF_OWN_MODELS = (
    "{method} trains every client alone and is not a federated method: {metric} {scores}{where}."
)
ON_OWN_SAMPLES = (
    "; {which} means over clients of the model that each would use, on its own test samples"
)
NO_SCORE = "{method} trains every client alone, without a shared model, and so has no score"
UNSCORED = "; data.client_test would score its clients' own models"


def remark(summary: Sequence[Record]) -> str:
    """Return a sentence about runs of a single method that is not federated; else nothing.

    Args:
      summary: rows of `summary.csv`.

    >>> remark([{"method": "centralised", "not_federated": "pooled"}])
    'centralised is a baseline, not a federated method: it trains on the pooled samples.'
    """
    first = summary[0]
    kind = first.get(NOT_FEDERATED)
    if not kind or len(distinct(summary, "method")) > 1:
        return ""
    scored = NOT_SCORED
    own = values_of(summary, OWN)
    if own:
        scored = SCORED.format(metric=in_words(first["metric"]), own=statistics.fmean(own))
    return REMARKS[kind].format(method=first["method"], scored=scored)


def outside_lines(findings: Findings) -> list[Sentence]:
    """Return a sentence for every method that is not federated, with what it reaches.

    They claim nothing: the scores are means, and differences come with their intervals.
    """
    by_method: dict[str, list[Standing]] = {}
    for group in findings.outside.values():
        for standing in group:
            by_method.setdefault(standing.method, []).append(standing)

    lines = []
    for method, standings in by_method.items():
        text = ""
        scores = _scores(standings, findings)
        fields = {"method": method, "metric": findings.metric_name, "scores": scores}
        if standings[0].not_federated == ALONE:
            text = _of_clients_alone(standings[0], fields, findings)
        elif scores:
            text = ON_POOLED_DATA.format(**fields)
        if text:
            lines.append(Sentence(text, Priority.OUTSIDE))
    return lines


def _of_clients_alone(standing: Standing, fields: Record, findings: Findings) -> str:
    """What the models of clients that train alone reach, and on which samples.

    Args:
      standing: of the method, under one of its variations.
      fields: of the sentence.
      findings: the comparison.
    """
    if fields["scores"]:
        where = ""
        if findings.score == OWN:
            where = ON_OWN_SAMPLES.format(which="all scores are")
        elif standing.row is not None and standing.row["score"] == OWN:
            where = ON_OWN_SAMPLES.format(which="both are")
        return OF_OWN_MODELS.format(**fields, where=where)
    data = (findings.scenario or {}).get("data", {})
    unscored = "" if data.get("client_test", True) else UNSCORED
    return f"{NO_SCORE.format(**fields)}{unscored}."


def _scores(standings: Sequence[Standing], findings: Findings) -> str:
    """The score of a method, with its difference to the baseline; over variations, its range.

    Empty if it has no score.
    """
    means = [standing.mean for standing in standings if standing.mean is not None]
    if not means:
        return ""
    lowest = findings.score_text(min(means))
    highest = findings.score_text(max(means))
    if lowest != highest:
        return RANGE.format(lowest=lowest, highest=highest)

    row = standings[0].row or {}
    if len(standings) > 1 or row.get("difference") is None:
        return lowest
    difference = difference_in_words(row["difference"], row["ci_low"], row["ci_high"])
    return DIFFERENCE.format(score=lowest, difference=difference, baseline=findings.baseline)
