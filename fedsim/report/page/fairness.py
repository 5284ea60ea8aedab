"""How evenly methods serve the clients, on the page: a table of a few numbers for each method."""

import math
import statistics
from typing import Any

from fedsim.report.context import Context
from fedsim.report.results import EMPTY, Cell, Row

# Columns of `summary.csv`, and their titles.
COLUMNS = {
    "client_accuracy_mean": "mean",
    "client_accuracy_worst_tenth": "worst 10 %",
    "client_accuracy_std": "standard deviation",
    "client_accuracy_gini": "Gini",
}


def fairness(runs: list[Row], context: Context) -> dict[str, Any] | None:
    """The table of the clients' accuracies: means over the seeds; None without accuracies.

    Args:
      runs: rows of `summary.csv`.
      context: what is shown.
    """
    variants = list(dict.fromkeys(str(row.get("variant") or "") for row in runs))
    several = len(variants) > 1
    rows = []
    for variant in variants:
        for method in context.order:
            of_method = []
            for row in runs:
                if row["method"] == method and str(row.get("variant") or "") == variant:
                    of_method.append(row)
            cells = [_cell(of_method, column) for column in COLUMNS]
            if all(cell is EMPTY for cell in cells):
                continue
            words = [(context.words(variant), variant)] if several else []
            rows.append([(method, method), *words, *cells])
    if not rows:
        return None
    head = ["method", *(["variation"] if several else []), *COLUMNS.values()]
    return {"head": head, "rows": rows, "words": 2 if several else 1}


def _cell(runs: list[Row], column: str) -> Cell:
    """The mean of a column over the seeds; empty where no run has a number."""
    numbers = []
    for row in runs:
        value = row.get(column)
        if value is not None and math.isfinite(float(value)):
            numbers.append(float(value))
    if not numbers:
        return EMPTY
    mean = statistics.fmean(numbers)
    return f"{mean:.3f}", mean
