"""Records -> frames -> CSV. A cell that does not apply is empty, a computed NaN is `nan`, floats keep every bit."""

import contextlib
import csv
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

COMPUTED = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet computes
Record = dict[str, Any]  # a row, or a stack of rows: values that are lists have one entry per row

ROUNDS = (
    "method", "seed", "round", "virtual_seconds", "bytes_up", "bytes_down", "clients_sampled", "clients_reported",
    "n_nonfinite", "skipped", "train_loss", "test_loss", "test_accuracy", "validation_loss", "validation_accuracy",
    "update_norm", "drift", "cosine",
)  # fmt: skip
TIMING = ("method", "seed", "round", "wall_seconds", "compile_seconds", "steps_per_second", "lane_efficiency")
CLIENTS = (
    "method",
    "seed",
    "client",
    "samples",
    "classes",
    "rounds_joined",
    "bytes_up",
    "global_loss",
    "global_accuracy",
)
PARTITION = ("seed", "client", "label", "samples")
SUMMARY = (
    "method", "seed", "metric", "final", "best", "mean_last_k", "k", "rounds_to_target", "bytes_to_target",
    "virtual_seconds_to_target", "diverged",
    *(f"client_accuracy_p{10 * decile}" for decile in range(1, 10)), "client_accuracy_worst", "client_accuracy_std", "reason",
)  # fmt: skip
COMPARE = (
    "method", "baseline", "metric", "score", "seeds", "mean", "sd", "difference", "ci_low", "ci_high", "p_value", "p_adjusted",
    "effect_size", "probability_of_improvement", "p_wilcoxon", "diverged", "failed",
)  # fmt: skip
GROWN = 1000  # times the first loss: a run that ends there, with its largest one, says so
SENSITIVITY = ("tuned", "sensitivity_low", "sensitivity_high")  # of compare.csv, where something was tuned
ACROSS = ("method", "metric", "score", "variations", "left_out", "iqm", "ci_low", "ci_high", "mean_rank")
PROFILES = ("method", "metric", "score", "threshold", "share")
TUNING = ("method", "metric", "validation_mean", "validation_sd", "test_mean", "test_sd", "chosen")
BENCH = (
    "workload", "how", "seconds", "least", "most", "times_lanes", "steps_per_second", "gflops", "share_of_peak", "peak_gflops",
    "lane_efficiency", "compile_seconds", "plan_seconds", "evaluation_seconds", "peak_bytes",
)  # fmt: skip


def columns(records: Sequence[Record], order: Iterable[str]) -> list[str]:
    """Columns in their fixed order, those that apply to no record left out."""
    present = set().union(*records) if records else set(order)
    return [name for name in order if name in present]


def stacked(record: Record) -> bool:
    """Whether a record is a stack of rows: some values are lists of equal length, the others hold for all rows."""
    return any(isinstance(value, list) for value in record.values())


def unstacked(records: Iterable[Record]) -> Iterator[Record]:
    """Row by row.

    >>> list(unstacked([{"seed": 0, "client": [3, 4]}, {"seed": 1, "client": 5}]))
    [{'seed': 0, 'client': 3}, {'seed': 0, 'client': 4}, {'seed': 1, 'client': 5}]
    """
    for record in records:
        if stacked(record):
            yield from (dict(zip(record, values, strict=True)) for values in _across(record.values()))
        else:
            yield record


def frame(records: Sequence[Record], order: Iterable[str]) -> pd.DataFrame:
    """Records as a frame ready to plot; what does not apply is missing (NaN), and a column of numbers is one of numbers."""
    made = pd.DataFrame.from_records(list(unstacked(records)), columns=columns(records, order))
    for name in [name for name in made if made[name].dtype == "object"]:
        with contextlib.suppress(ValueError, TypeError):  # words stay words
            made[name] = pd.to_numeric(made[name])
    return made


class Lines(io.StringIO):
    """Text whose lines end with `\\n`, however they are handed over."""

    def write(self, line: str) -> int:
        """One line."""
        return super().write(line.removesuffix("\r\n") + "\n")


def to_csv(records: Sequence[Record], order: Iterable[str]) -> str:
    """Records as CSV text with `\\n` line ends.

    >>> to_csv([{"round": 0, "train_loss": None}, {"round": 1, "train_loss": float("nan")}], ("round", "train_loss"))
    'round,train_loss\\n0,\\n1,nan\\n'
    """
    text = Lines()
    names = columns(records, order)
    writer = csv.writer(text, lineterminator="\r\n")  # then cells with either are quoted
    writer.writerow(names)
    for record in records:
        values = [record.get(name) for name in names]
        rows = _across(values) if stacked(record) else [values]
        writer.writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _across(values: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of a stack, from its columns."""
    return zip(*(value if isinstance(value, list) else itertools.repeat(value) for value in values), strict=False)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(float(value))  # the shortest text that reads back exactly
    return inert(value) if isinstance(value, str) else str(value)


def inert(text: str) -> str:
    """Text that a spreadsheet shows and does not compute: names come from users, perhaps from strangers.

    >>> inert("=cmd()"), inert("median")
    ("'=cmd()", 'median')
    """
    return f"'{text}" if text.startswith(COMPUTED) else text


def summarise(
    records: Sequence[Record], metric: str, last: int, target: float | None, status: str, reason: str
) -> Record:
    """One run's line of `summary.csv`, from its lines of `rounds.csv`; a run that diverged has no score to end with.

    Args:
      records: its evaluated rounds.
      metric: as in the scenario.
      last: evaluated rounds that `mean_last_k` is over, at most.
      target: of the metric, where one is set.
      status: how the run ended.
      reason: why, where it did not end as `done`.
    """
    if not any(record.get(metric) is not None for record in records):
        metric = "test_loss" if any("test_loss" in record for record in records) else "train_loss"
    known = [record for record in records if record.get(metric) is not None]
    values = [record[metric] for record in known]
    better = max if metric.endswith("accuracy") else min
    finite = [v for v in values if not math.isnan(v)]
    tail = values[-last:]
    reached = [
        r for r in known if target is not None and (r[metric] >= target if better is max else r[metric] <= target)
    ]
    first, diverged = reached[0] if reached else None, status == "diverged"
    return {
        "metric": metric,
        "final": values[-1] if values and not diverged else None,
        "best": better(finite) if finite else None,
        "mean_last_k": sum(tail) / len(tail) if tail and not diverged else None,
        "k": len(tail),
        "rounds_to_target": first["round"] if first else None,
        "bytes_to_target": first["bytes_up"] + first["bytes_down"] if first else None,
        "virtual_seconds_to_target": first["virtual_seconds"] if first else None,
        "diverged": int(diverged),
        **({"reason": reason} if reason else {}),
    }


def growth(records: Sequence[Record]) -> str:
    """In words, where the loss of a run grew more than GROWN-fold and was at its largest in the end; else nothing.

    >>> growth([{"round": 0, "test_loss": 2.0}, {"round": 9, "test_loss": 5e6}])
    'test_loss grew from 2 to 5e+06 in round 9, its largest value: the run grows without bound'
    """
    name = "test_loss" if any("test_loss" in record for record in records) else "train_loss"
    known = [record for record in records if record.get(name) is not None]
    values = [record[name] for record in known]
    if len(values) < 2 or not 0 < GROWN * values[0] < values[-1] or max(values) > values[-1]:
        return ""
    where = f"in round {known[-1]['round']}, its largest value"
    return f"{name} grew from {values[0]:.3g} to {values[-1]:.3g} {where}: the run grows without bound"


def fairness(clients: Record) -> Record:
    """How evenly the final model serves the clients: deciles, worst and standard deviation of their accuracies.

    Every client with samples counts the same, however many it has; empty where there is no accuracy.

    Args:
      clients: rows of `clients.csv`, stacked.
    """
    known = np.array([value for value in clients.get("global_accuracy", ()) if value is not None], float)
    if not len(known):
        return {}
    deciles = np.quantile(known, np.arange(1, 10) / 10).tolist()
    found = {f"client_accuracy_p{10 * (i + 1)}": value for i, value in enumerate(deciles)}
    return {**found, "client_accuracy_worst": float(known.min()), "client_accuracy_std": float(known.std())}
