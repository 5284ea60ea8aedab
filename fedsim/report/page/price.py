"""What the only numeric axis costs against a baseline that it does not touch, such as ε."""

from collections.abc import Sequence

from fedsim.report.context import Context
from fedsim.report.pictures.scores import axis_of, drawable
from fedsim.report.results import Row, grouped_by
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.summary import as_loss, in_words, is_share, larger_is_better


def price(compared: Sequence[Row], baseline: str | None, context: Context) -> str:
    """A sentence such as `ε = 8 costs 2.1 points of test accuracy, ε = 0.5 costs 11.7.`.

    The cost is the distance of the best method to the baseline, at both ends of the axis, the
    cheaper first. Empty where the axis changes the baseline, and where either is no clear
    difference.

    Args:
      compared: rows of `compare.csv`.
      baseline: the method that the others are compared with.
      context: what is shown.
    """
    path = axis_of(context.scenario)
    rows = [row for row in drawable(compared) if path is not None and row.get(path) is not None]
    if not rows:
        return ""
    same = {row["mean"] for row in rows if row["method"] == baseline}
    others = grouped_by([row for row in rows if row["method"] != baseline], str(path))
    if len(same) != 1 or len(others) < 2:
        return ""

    rising = larger_is_better(context.metric)
    ends = [others[min(others)], others[max(others)]]
    best = [min(rows, key=lambda row: as_loss(row["mean"], rising)) for rows in ends]
    costs = []
    for row in best:
        cost = as_loss(row["mean"], rising) - as_loss(min(same), rising)
        p = row["p_adjusted"]
        if cost <= 0 or p is None or p >= SIGNIFICANCE_LEVEL:
            return ""
        costs.append((cost, context.words(row["variant"])))
    (low, cheap), (high, dear) = sorted(costs)
    metric = in_words(context.metric)
    if not is_share(context.metric):
        return f"{cheap} costs {low:.3g} of {metric}, {dear} costs {high:.3g}."
    return f"{cheap} costs {100 * low:.1f} points of {metric}, {dear} costs {100 * high:.1f}."
