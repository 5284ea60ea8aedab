"""Further columns of a paper's table: errors of models, differences, what was tuned, costs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedsim.report.latex import Column, number, numbers, plain, word, words
from fedsim.report.results import grouped_by, spent_to_target
from fedsim.study.summary import median_to_target

Row = dict[str, Any]
Errors = Mapping[tuple[str, str], Mapping[str, float]]
"""R², MAE and perplexity by name, by variation and method"""


def errors_of_models(methods: Sequence[str], errors: Errors) -> list[Column]:
    """R², MAE and perplexity, where there are any, with four significant digits of the largest."""
    columns = []
    for name in names_of(errors):
        means = [errors.get(("", method), {}).get(name) for method in methods]
        largest = max((abs(mean) for mean in means if mean is not None), default=0.0)
        magnitude = math.floor(math.log10(largest or 1.0))
        digits = min(max(3 - magnitude, 1), 4)
        cells = ["" if mean is None else number(mean, digits) for mean in means]
        columns.append(numbers(name, cells))
    return columns


def names_of(errors: Errors) -> list[str]:
    """The names of errors, each once, in the order in which they appear."""
    names: dict[str, float] = {}
    for means in errors.values():
        names |= means
    return list(names)


def differences(methods: Sequence[str], compare: Sequence[Row] | None) -> list[Column]:
    """Differences to the baseline, and their p; empty for a method of which no run has ended."""
    if not compare or len(methods) < 2:
        return []
    rows = {row["method"]: row for row in compare}
    digits = digits_of([rows[method]["sd"] for method in methods if method in rows])
    cells = []
    p_values = []
    for method in methods:
        row = rows.get(method, {})
        if row.get("difference") is not None:
            cells.append(number(row["difference"], digits, sign=True))
        elif row.get("baseline") == method:
            cells.append(word("baseline"))
        else:
            cells.append("")

        p = row.get("p_adjusted")
        if p is None:
            p_values.append("")
        else:
            p_values.append(number(p, 3) if p >= 0.001 else word("<0.001"))
    return [numbers("difference", cells), numbers("p (Holm)", p_values)]


def digits_of(spreads: Sequence[float | None], least: int = 2) -> int:
    """Decimals with which the smallest spread still has a digit, from `least` to 4.

    Args:
      spreads: standard deviations or the like; 4 decimals where none is known.
      least: decimals at least.
    """
    positive = [spread for spread in spreads if spread and math.isfinite(spread)]
    if not positive:
        return 4
    digits = math.ceil(-math.log10(min(positive)))
    return min(max(digits, least), 4)


def tuned(methods: Sequence[str], summary: Sequence[Row]) -> list[Column]:
    """A column per path that was tuned, with the value that every method chose."""
    values: dict[str, dict[str, str]] = {}  # by path and method
    for row in summary:
        for setting in str(row.get("tuned") or "").split(", "):
            path, _, value = setting.partition("=")
            if value:
                values.setdefault(path, {})[row["method"]] = plain(value)
    columns = []
    for path, chosen in values.items():
        columns.append(words(path, [chosen.get(method, "") for method in methods]))
    return columns


def costs(
    methods: Sequence[str], summary: Sequence[Row], scenario: Mapping[str, Any]
) -> list[Column]:
    """Rounds, megabytes and, of a fleet, virtual seconds to the target, medians over all runs.

    Cells are empty where half of a method's runs or more did not reach the target.
    """
    runs = grouped_by(summary, "method")
    columns = []
    for spent in spent_to_target(summary, scenario):
        cells = []
        for method in methods:
            median, _ = median_to_target(runs[(method,)], spent.column)
            cells.append(f"{median / spent.unit:{spent.form}}" if math.isfinite(median) else "")
        if any(cells):
            columns.append(words(spent.noun, cells))
    return columns
