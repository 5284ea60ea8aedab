"""Sentences about the baselines that are not federated methods, and so have no place in a ranking.

One trains on the pooled samples of all clients, in another one every client trains alone.
"""

import statistics
from collections.abc import Sequence

from fedsim.study.claims import Priority, Sentence
from fedsim.study.findings import Findings
from fedsim.study.standings import Standing
from fedsim.study.summary import NOT_FEDERATED, Record, distinct, values_of, variation_of
from fedsim.study.words import difference_in_words
from fedsim.types.client import ALONE, POOLED

MEDIAN = "client_accuracy_p50"

REMARKS = {
    POOLED: "{method} is a baseline, not a federated method: it trains on the pooled samples.",
    ALONE: "{method} is a baseline, not a federated method: every client trains alone, and "
    "{scored}.",
}
SCORED = "clients.csv has the scores of their models"
NOT_SCORED = "data.client_test would score their models"

ON_POOLED_DATA = "{method} trains on pooled data and is not a federated method: {metric} {scores}."
DIFFERENCE = "{score} (against {baseline}: {difference})"
RANGE = "{lowest} to {highest}"
NO_SCORE = "{method} trains every client alone, without a shared model, and so has no score"
OWN_MEDIAN = "; the median client's own model has accuracy {own:.3g} on its test samples"
SHARED_MEDIAN = ", and the shared model of {baseline} {shared:.3g}"
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
    scored = NOT_SCORED if _median(summary) is None else SCORED
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
        if standings[0].not_federated == ALONE:
            text = NO_SCORE.format(method=method) + _own_models(method, findings) + "."
            lines.append(Sentence(text, Priority.OUTSIDE))
        elif scores := _scores(standings, findings):
            text = ON_POOLED_DATA.format(method=method, metric=findings.metric_name, scores=scores)
            lines.append(Sentence(text, Priority.OUTSIDE))
    return lines


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


def _own_models(method: str, findings: Findings) -> str:
    """How the clients' own models do on their test samples, under a single variation."""
    runs = [row for row in findings.rows("outside") if row["method"] == method]
    median = _median(runs)
    if median is None:
        data = (findings.scenario or {}).get("data", {})
        if data.get("client_test", True):
            return ""
        return UNSCORED
    if len(set(map(variation_of, runs))) > 1:
        return ""

    runs_of_baseline = []
    for row in findings.rows("summary"):
        if row["method"] == findings.baseline:
            runs_of_baseline.append(row)
    shared = _median(runs_of_baseline)
    text = OWN_MEDIAN.format(own=median)
    if shared is not None:
        text += SHARED_MEDIAN.format(shared=shared, baseline=findings.baseline)
    return text


def _median(runs: Sequence[Record]) -> float | None:
    """The mean over seeds of the median client's accuracy; None if no client was scored."""
    medians = values_of(runs, MEDIAN)
    if not medians:
        return None
    return statistics.fmean(medians)
