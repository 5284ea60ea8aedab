"""R² and mean absolute error of predicted numbers, perplexity of tokens: what a loss hides."""

import math
import statistics
from collections.abc import Iterable

from fedsim.study.summary import Record, grouped, values_of, variation_of

# Column of `rounds.csv` -> its name.
ERRORS = {"test_r2": "R²", "test_mae": "MAE", "test_perplexity": "perplexity"}


def mean_errors(rounds: Iterable[Record], metric: str) -> dict[tuple[str, str], dict[str, float]]:
    """Return these errors by name, by variation and method; none for a single label of a sample.

    They are means over the seeds, at the end of the runs.
    """
    last = {(variation_of(row), row["method"], row["seed"]): row for row in rounds}
    errors = {}
    for configuration, rows in grouped(last.values(), key=_configuration).items():
        means = {}
        for column, name in ERRORS.items():
            finite = [value for value in values_of(rows, column) if math.isfinite(value)]
            if finite and column != metric:
                means[name] = statistics.fmean(finite)
        if means:
            errors[configuration] = means
    return errors


def _configuration(row: Record) -> tuple[str, str]:
    return variation_of(row), row["method"]
