"""Paired differences to the baseline, variation by variation."""

from collections.abc import Sequence
from typing import NamedTuple

from fedsim.report.context import Context
from fedsim.report.pictures.rows import ZERO, Mark, Rows, brief, empty_mark, finite, span_of
from fedsim.report.pictures.rows import Row as Line
from fedsim.report.results import Row, grouped_by, metric_of
from fedsim.study.pairing import SIGNIFICANCE_LEVEL, without_baseline
from fedsim.study.summary import in_words, larger_is_better


class Forest(NamedTuple):
    """The differences under one variation."""

    variant: str
    title: str
    baseline: str
    metric: str
    rows: list[Row]


def forests(compared: Sequence[Row], context: Context) -> list[Forest]:
    """A forest for every variation in which something is compared with the baseline."""
    drawn = []
    scored = [row for row in without_baseline(compared) if not _has_no_score(row)]
    for (variant,), group in grouped_by(scored, "variant").items():
        rows = {row["method"]: row for row in group}
        forest = Forest(
            variant=variant or "",
            title=context.words(variant or ""),
            baseline=group[0]["baseline"],
            metric=metric_of(group),
            rows=[rows[method] for method in context.ordered([*rows])],
        )
        drawn.append(forest)
    return drawn


def rows_of_forest(forest: Forest, context: Context, label: str = "") -> Rows:
    """The picture of a forest: a row per method, filled where the test finds a difference.

    Args:
      label: of the axis; left out: the baseline and the metric.
    """
    rows = []
    for row in forest.rows:
        method = str(row["method"])
        rank = context.rank_of(method)
        rows.append(Line(method, context.note_of(method), rank, [_mark(row)]))
    if not label:
        side = "right" if larger_is_better(forest.metric) else "left"
        label = f"difference to {forest.baseline} in {in_words(forest.metric)}; {side} is better"
    return Rows(rows, span_of(rows, fixed=[0.0]), label, [ZERO])


def _mark(row: Row) -> Mark:
    """The difference of a method with its interval; filled where the exact test finds one."""
    mean = finite(row["difference"])
    low = finite(row["ci_low"])
    high = finite(row["ci_high"])
    p = finite(row["p_adjusted"])
    if mean is None:
        return empty_mark("no finite difference")
    text = brief(mean, sign="+")
    title = text
    if low is not None and high is not None and p is not None:
        title += f", 95 % {low:+z.4g} to {high:+z.4g}, p = {p:.2g} after Holm"
    return Mark(mean, low, high, [], p is not None and p < SIGNIFICANCE_LEVEL, text, title)


def _has_no_score(row: Row) -> bool:
    """Whether a method has none by its nature, as `local_only` where clients keep no test samples.

    Methods whose runs failed have none by accident.
    """
    return not row["metric"] and not row.get("failed") and not row.get("not_run")
