"""A sentence about a run of a baseline that is not a federated method."""

import statistics
from collections.abc import Sequence

from fedsim.study.summary import NOT_FEDERATED, OWN, Record, distinct, in_words, values_of
from fedsim.types.client import ALONE, POOLED

REMARKS = {
    POOLED: "{method} is a baseline, not a federated method: it trains on the pooled samples.",
    ALONE: "{method} is a baseline, not a federated method: every client trains alone, and "
    "{scored}.",
}
SCORED = "on their own test samples their models have {metric} {own:.4g}"
NOT_SCORED = "data.client_test would score their models"


def remark(summary: Sequence[Record]) -> str:
    """Return a sentence about runs of a single method that is not federated; else nothing.

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
