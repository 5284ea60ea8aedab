"""Further columns of a paper's table: errors of models, differences, what was tuned, costs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedsim.report import layout
from fedsim.report.latex import plain
from fedsim.report.layout import NUMBER, SIGN, Column, Fragment, number, word
from fedsim.report.results import grouped_by, spent_to_target
from fedsim.study.summary import median_to_target

Row = dict[str, Any]
Errors = Mapping[tuple[str, str], Mapping[str, float]]
"""R², MAE and perplexity by name, by variation and method"""


def errors_of_models(methods: Sequence[str], errors: Errors) -> list[Column]:
    """R², MAE and perplexity, where there are any, with four significant digits of the largest."""
    names: dict[str, float] = {}  # each once, in the order in which they appear
    for means in errors.values():
        names |= means
    return [_errors(name, methods, errors) for name in names]


def _errors(name: str, methods: Sequence[str], errors: Errors) -> Column:
    """The column of one error; empty for a method that has none."""
    means = [errors.get(("", method), {}).get(name) for method in methods]
    largest = max((abs(mean) for mean in means if mean is not None), default=0.0)
    magnitude = math.floor(math.log10(largest or 1.0))
    digits = min(max(3 - magnitude, 1), 4)

    cells = []
    for mean in means:
        if mean is None:
            cells.append(word(""))
        else:
            cells.append(number(mean, digits))
    return Column(NUMBER, [name], cells)


def differences(methods: Sequence[str], compare: Sequence[Row] | None) -> list[Column]:
    """Differences to the baseline, and their p; empty for a method of which no run has ended."""
    if not compare or len(methods) < 2:
        return []
    rows = {row["method"]: row for row in compare}
    compared = [rows[method] for method in methods if method in rows]
    digits = layout.digits_of([row["sd"] for row in compared])
    cells = []
    p_values = []
    for method in methods:
        row = rows.get(method, {})
        if row.get("difference") is not None:
            cells.append(number(row["difference"], digits, sign=True))
        elif row.get("baseline") == method:
            cells.append(word("baseline"))
        else:
            cells.append(word(""))

        if row.get("p_adjusted") is None:
            p_values.append(word(""))
        else:
            p_values.append(_p(row["p_adjusted"]))
    return [Column(NUMBER, ["difference"], cells), Column(NUMBER, ["p (Holm)"], p_values)]


def _p(p: float) -> list[Fragment]:
    """A p value with three decimals; a smaller one as `<0.001`."""
    if p >= 0.001:
        return number(p, 3)
    (integer, points), fraction = number(0.001, 3)
    return [(f"$<${integer}", points + SIGN), fraction]


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
        cells = [word(chosen.get(method, "")) for method in methods]
        columns.append(Column(("r",), [path], cells))
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
        any_reached = False
        for method in methods:
            median, _ = median_to_target(runs[(method,)], spent.column)
            if math.isfinite(median):
                cells.append(word(f"{median / spent.unit:{spent.form}}"))
                any_reached = True
            else:
                cells.append(word(""))
        if any_reached:
            columns.append(Column(("r",), [spent.noun], cells))
    return columns
