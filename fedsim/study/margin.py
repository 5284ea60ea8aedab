"""How much less a score may be and still count as the same."""

from collections.abc import Mapping
from typing import Any

from fedsim.study.summary import is_share

SHARE = 0.01  # of scores between 0 and 1
RELATIVE = 0.01  # of other scores, of the size of the baseline's mean


def margin_of(scenario: Mapping[str, Any] | None, metric: str, baseline: float) -> float:
    """`compare.margin`; left out, 0.01 of scores between 0 and 1, else 1 % of the size of the baseline's mean score.

    Args:
      scenario: as in `run.json`.
      metric: that is compared.
      baseline: its mean score.

    >>> margin_of(None, "test_accuracy", 0.9), margin_of(None, "test_loss", 2.0)
    (0.01, 0.02)
    >>> margin_of({"compare": {"margin": 0.05}}, "test_accuracy", 0.9)
    0.05
    """
    written = ((scenario or {}).get("compare") or {}).get("margin")
    if written is not None:
        return float(written)
    return SHARE if is_share(metric) else RELATIVE * abs(baseline)
