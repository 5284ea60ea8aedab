"""Sentences about the baselines that are not federated methods, and so have no place in a ranking.

One trains on the pooled samples of all clients, in another one every client trains alone.
"""

import statistics
from collections.abc import Sequence

from fedsim.study.findings import Findings
from fedsim.study.summary import NOT_FEDERATED, OWN, Record, distinct, in_words, values_of
from fedsim.types.client import ALONE, POOLED

REMARKS = {
    POOLED: "{method} is a baseline, not a federated method: it trains on the pooled samples.",
    ALONE: "{method} is a baseline, not a federated method: every client trains alone, and "
    "{scored}.",
}
SCORED = "on their own test samples their models have {metric} {own:.4g}"
NOT_SCORED = "data.client_test would score their models"

ON_POOLED_DATA = "{method} trains on pooled data and is not a federated method{scores}."
ON_OWN_DATA = "{method} trains every client alone and is not a federated method{scores}."
SCORES = ": {metric} {scores}"
ON_OWN_SAMPLES = ", on the clients' own test samples"
NO_SCORE = ", and so has no score without data.client_test"


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


def outside_lines(findings: Findings) -> list[str]:
    """Return a sentence for every method that is not federated, with what it reaches.

    They claim nothing: the scores are means where the comparison asks.
    """
    lines = []
    for standing in findings.outside.get(findings.asked, ()):
        scores = NO_SCORE
        if standing.mean is not None:
            score = findings.score_text(standing.mean)
            scores = SCORES.format(metric=findings.metric_name, scores=score)
            if OWN in (findings.score, (standing.row or {}).get("score")):
                scores += ON_OWN_SAMPLES
        template = ON_OWN_DATA if standing.not_federated == ALONE else ON_POOLED_DATA
        lines.append(template.format(method=standing.method, scores=scores))
    return lines
