"""R² and MAE of models of numbers, for sentences: what a loss alone does not say."""

import math
import statistics
from collections.abc import Iterable, Mapping

from fedsim.study.summary import Record

ERRORS = {"test_r2": "R²", "test_mae": "MAE"}  # column of `rounds.csv` -> its name


def errors_of(rounds: Iterable[Record], metric: str) -> dict[tuple[str, str], str]:
    """R² and MAE in words, by variation and method: means over the seeds at the end of their runs; none of classes.

    Args:
      rounds: rows of `rounds.csv`.
      metric: that is told anyway.

    >>> errors_of([{"method": "fedavg", "seed": 0, "test_r2": 0.81, "test_mae": 0.4}], "test_loss")
    {('', 'fedavg'): 'R² 0.81, MAE 0.4'}
    """
    last = {(row.get("variant") or "", row["method"], row["seed"]): row for row in rounds}
    groups: dict[tuple[str, str], list[Record]] = {}
    for (variant, method, _), row in last.items():
        groups.setdefault((variant, method), []).append(row)
    texts = {who: _in_words(rows, metric) for who, rows in groups.items()}
    return {who: text for who, text in texts.items() if text}


def _in_words(rows: Iterable[Mapping[str, object]], metric: str) -> str:
    """Means of what there is beside the metric."""
    rows = list(rows)
    parts = []
    for column, name in ERRORS.items():
        values = [
            value
            for row in rows
            if isinstance(value := row.get(column), float) and math.isfinite(value)
        ]
        if column != metric and values:
            parts.append(f"{name} {statistics.fmean(values):.3g}")
    return ", ".join(parts)
