"""Paired differences to the baseline, variation by variation."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fedsim.report.context import Context
from fedsim.report.pictures.rows import ZERO, Mark, Rows, brief, empty_mark, span_of
from fedsim.report.pictures.rows import Row as Line
from fedsim.report.results import Row, grouped_by, metric_of
from fedsim.study.pairing import SIGNIFICANCE_LEVEL, without_baseline
from fedsim.study.summary import in_words, larger_is_better


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


def rows_of_forest(forest: Forest, context: Context, label: str = "") -> Rows:
    """The picture of a forest: a row per method, filled where the test finds a difference.

    Args:
      forest: the differences.
      context: what is shown; it has all methods of the forest.
      label: of the axis; left out: the baseline and the metric.
    """
    rows = []
    for row in forest.rows:
        rank = context.rank_of(row.method)
        rows.append(Line(row.method, context.note_of(row.method), rank, [_mark(row)]))
    if not label:
        side = "right" if larger_is_better(forest.metric) else "left"
        label = f"difference to {forest.baseline} in {in_words(forest.metric)}; {side} is better"
    return Rows(rows, span_of(rows, fixed=[0.0]), label, [ZERO])


def _mark(row: Difference) -> Mark:
    if row.mean is None:
        return empty_mark("no finite difference")
    text = brief(row.mean, sign="+")
    title = text
    if row.low is not None:
        title += f", 95 % {row.low:+z.4g} to {row.high:+z.4g}, p = {row.p:.2g} after Holm"
    return Mark(row.mean, row.low, row.high, [], row.significant, text, title)


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
