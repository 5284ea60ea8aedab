"""What the only numeric axis costs against a baseline that it does not touch, such as ε."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.study.breakdown import MIN_VALUES
from fedsim.study.claims import COSTS, Claim, Finding
from fedsim.study.findings import Findings
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.summary import Record, as_loss, grouped, in_words, is_share, variation_of
from fedsim.study.words import is_number

POINTS = "{cheap} costs {low:.1f} points of {metric}, {dear} costs {high:.1f}"
AMOUNTS = "{cheap} costs {low:.3g} of {metric}, {dear} costs {high:.3g}"
NUMBERS = (
    "{metric} {base} with {baseline}, {cheap} with {cheap_method}, {dear} with {dear_method}; "
    "p ≤ {p:.2g} after Holm"
)


class Price(NamedTuple):
    """What a value of an axis costs."""

    cost: float
    row: Record


def axis_of(scenario: Mapping[str, Any] | None) -> str | None:
    """Return the path of the numeric axis, if there is exactly one.

    Of several paths that vary it is the only one with three or more numbers; alone, two are enough.
    """
    vary = ((scenario or {}).get("compare") or {}).get("vary") or {}
    several = {path: values for path, values in vary.items() if len(values) > 1}
    least = 2 if len(several) == 1 else MIN_VALUES
    numeric = []
    for path, values in several.items():
        if len(values) >= least and all(map(is_number, values)):
            numeric.append(path)
    return numeric[0] if len(numeric) == 1 else None


def price_findings(findings: Findings) -> list[Finding]:
    """Return what both ends of the axis cost: the distance of the best method to the baseline.

    Nothing if the axis changes the baseline, if the ends cost the same, or if a distance is not
    significant after Holm over all of `compare.csv`.
    """
    path = axis_of(findings.scenario)
    if path is None:
        return []
    rows = [row for row in findings.rows("compare") if _is_placed(row, path)]
    base_means = {row["mean"] for row in rows if row["method"] == findings.baseline}
    others = [row for row in rows if row["method"] != findings.baseline]
    by_value = grouped(others, key=lambda row: row[path])
    if len(base_means) != 1 or len(by_value) < 2:
        return []

    (base,) = base_means
    ends = [_price(by_value[end], base, findings) for end in (min(by_value), max(by_value))]
    cheap, dear = sorted(ends, key=lambda end: end.cost)
    p_values = [end.row["p_adjusted"] for end in ends]
    is_significant = all(p is not None and p < SIGNIFICANCE_LEVEL for p in p_values)
    if not is_significant or not 0 < cheap.cost < dear.cost:
        return []

    scale = 100 if is_share(findings.metric) else 1
    template = POINTS if is_share(findings.metric) else AMOUNTS
    text = template.format(
        metric=in_words(findings.metric),
        cheap=findings.words(variation_of(cheap.row)),
        low=scale * cheap.cost,
        dear=findings.words(variation_of(dear.row)),
        high=scale * dear.cost,
    )
    numbers = NUMBERS.format(
        metric=findings.metric_name,
        base=findings.score_text(base),
        baseline=findings.baseline,
        cheap=findings.score_text(cheap.row["mean"]),
        cheap_method=cheap.row["method"],
        dear=findings.score_text(dear.row["mean"]),
        dear_method=dear.row["method"],
        p=max(p_values),
    )
    claims = []
    for p, end in zip(p_values, ends, strict=True):
        method = end.row["method"]
        claims.append(Claim(COSTS, method, findings.baseline, variation_of(end.row), p))
    return [Finding(text, numbers, claims)]


def _is_placed(row: Record, path: str) -> bool:
    """Whether a row has a place on the axis, and a finite mean."""
    mean = row["mean"]
    return row.get(path) is not None and mean is not None and math.isfinite(mean)


def _price(rows: Sequence[Record], base: float, findings: Findings) -> Price:
    """What a value costs: how far its best method is from the baseline's mean."""
    losses = [as_loss(row["mean"], findings.rising) for row in rows]
    best = losses.index(min(losses))
    return Price(losses[best] - as_loss(base, findings.rising), rows[best])
