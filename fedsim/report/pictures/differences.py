"""Paired differences to the baseline, variation by variation."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fedsim.report.context import Context
from fedsim.report.results import Row, grouped_by, metric_of
from fedsim.study.pairing import SIGNIFICANCE_LEVEL, without_baseline


class Difference(NamedTuple):
    """A method against the baseline.

    Attributes:
      method: its label.
      mean: the mean difference; None where it is not finite.
      low: lower end of its 95 % interval; None where there is none.
      high: upper end.
      p: of the exact test after Holm; None where there is none.
    """

    method: str
    mean: float | None
    low: float | None
    high: float | None
    p: float | None

    @property
    def significant(self) -> bool:
        """Whether the exact test finds a difference."""
        return self.p is not None and self.p < SIGNIFICANCE_LEVEL


class Forest(NamedTuple):
    """The differences under one variation.

    Attributes:
      variant: as in the column.
      title: the variation in words.
      baseline: the method that the others are compared with.
      metric: of the scores.
      rows: a difference per method, in their order.
    """

    variant: str
    title: str
    baseline: str
    metric: str
    rows: list[Difference]

    @property
    def numbers(self) -> list[float]:
        """All numbers that are drawn along the axis."""
        numbers = []
        for row in self.rows:
            for end in (row.mean, row.low, row.high):
                if end is not None:
                    numbers.append(end)
        return numbers


def forests(compared: Sequence[Row], context: Context) -> list[Forest]:
    """A forest for every variation in which something is compared with the baseline.

    Args:
      compared: rows of `compare.csv`.
      context: what is shown.
    """
    drawn = []
    scored = [row for row in without_baseline(compared) if not _has_no_score(row)]
    for (variant,), group in grouped_by(scored, "variant").items():
        rows = {row["method"]: row for row in group}
        forest = Forest(
            variant=variant or "",
            title=context.words(variant or ""),
            baseline=group[0]["baseline"],
            metric=metric_of(group),
            rows=[_difference(rows[method]) for method in context.ordered([*rows])],
        )
        drawn.append(forest)
    return drawn


def _has_no_score(row: Row) -> bool:
    """Whether a method has none by its nature, as `local_only` where clients keep no test samples.

    Methods whose runs failed have none by accident.
    """
    return not row["metric"] and not row.get("failed") and not row.get("not_run")


def _difference(row: Row) -> Difference:
    return Difference(
        method=str(row["method"]),
        mean=_finite(row["difference"]),
        low=_finite(row["ci_low"]),
        high=_finite(row["ci_high"]),
        p=_finite(row["p_adjusted"]),
    )


def _finite(value: Any) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(value)
