"""The margin: how much worse a score may be and still count as the same."""

from collections.abc import Mapping
from typing import Any

from fedsim.study.summary import is_share

SHARE = 0.01  # of scores between 0 and 1
RELATIVE = 0.01  # of other scores, as a fraction of the baseline's mean


def margin_of(scenario: Mapping[str, Any] | None, metric: str, baseline: float) -> float:
    """Return `compare.margin`, or its default if the scenario does not set it.

    The default is 0.01 for scores between 0 and 1, and 1 % of the baseline's mean for others.

    Args:
      scenario: the scenario, as in `run.json`.
      metric: the metric that is compared.
      baseline: the baseline's mean score.

    >>> margin_of(None, "test_accuracy", 0.9), margin_of(None, "test_loss", 2.0)
    (0.01, 0.02)
    >>> margin_of({"compare": {"margin": 0.05}}, "test_accuracy", 0.9)
    0.05
    """
    compare = (scenario or {}).get("compare") or {}
    margin = compare.get("margin")
    if margin is not None:
        return float(margin)
    if is_share(metric):
        return SHARE
    return RELATIVE * abs(baseline)
