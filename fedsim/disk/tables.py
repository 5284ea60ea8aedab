"""The CSV codec: records -> frames and CSV text -> frames again, to the bit.

A cell that does not apply is empty, a computed NaN is `nan`, and floats keep every bit.
"""

import contextlib
import csv
import io
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.errors import DirectoryError

Record = dict[str, Any]  # a row, or a stack of rows: values that are lists have one entry per row

COMPUTED = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet computes
GUARD = "'"  # stands before such text, and before text that begins with it
NAMES = ("client", "label")  # columns of numbers or names; 007 is a name
TEXT = (
    "method",
    "baseline",
    "variant",
    "tuned",
    "reason",
)  # columns that stay text when they are read
LISTED = 100_000  # clients up to which `clients.csv` and `partition.csv` list all, not only those that took part

ROUNDS = (
    "method", "seed", "round", "virtual_seconds", "bytes_up", "bytes_down", "clients_sampled", "clients_reported",
    "malicious_reported", "n_nonfinite", "skipped",
    "clients_late", "clients_left", "steps_wasted", "bytes_wasted",
    "staleness_mean", "staleness_max", "train_loss", "test_loss", "test_accuracy", "test_r2",
    "test_mae", "validation_loss", "validation_accuracy", "validation_r2", "validation_mae", "attack_success",
    "update_norm", "drift", "cosine", "honest_distance", "kappa_ratio",
)  # fmt: skip
REPORTED = re.compile(r"/|^malicious_kept$")  # columns that links report, `krum/malicious_kept`
TIMING = (
    "method",
    "seed",
    "round",
    "wall_seconds",
    "compile_seconds",
    "steps_per_second",
    "lane_efficiency",
)
CLIENTS = (
    "method", "seed", "client", "samples", "classes", "rounds_offered", "rounds_joined", "rounds_late", "rounds_left",
    "bytes_up", "bytes_down",
    "global_loss", "global_accuracy",
    "global_mae", "personal_loss", "personal_accuracy", "personal_mae",
)  # fmt: skip
MACHINES = (
    "method",
    "seed",
    "place",
    "client",
    "begins",
    "trains",
    "sends",
    "ends",
    "closes",
    "outcome",
)
PARTITION = ("seed", "client", "label", "samples")
STALENESS = ("method", "seed", "age", "messages")
SUMMARY = (
    "method", "seed", "metric", "final", "best", "mean_last_k", "k", "rounds_to_target", "bytes_to_target",
    "virtual_seconds_to_target", "diverged",
    *(f"client_accuracy_p{10 * decile}" for decile in range(1, 10)), "client_accuracy_worst", "client_accuracy_std", "reason",
    "status",
)  # fmt: skip
COMPARE = (
    "method", "baseline", "metric", "score", "seeds", "mean", "sd", "difference", "ci_low", "ci_high", "p_value", "p_adjusted",
    "effect_size", "probability_of_improvement", "p_wilcoxon", "diverged", "failed", "not_run",
)  # fmt: skip
SENSITIVITY = (
    "tuned",
    "sensitivity_low",
    "sensitivity_high",
)  # of compare.csv, where something was tuned
ACROSS = (
    "method",
    "metric",
    "score",
    "variations",
    "left_out",
    "iqm",
    "ci_low",
    "ci_high",
    "mean_rank",
)
WORST = (
    "method", "metric", "score", "attacks", "attack", "seeds", "mean", "sd", "ci_low", "ci_high", "best", "p_adjusted",
)  # fmt: skip
BREAKDOWN = ("method", "metric", "score", "values", "untrained", "mean", "holds", "falls")
BYTES = (
    "method", "metric", "score", "seeds", "mean", "ci_low", "ci_high", "bytes_up", "bytes_down", "up_per_client_round",
    "down_per_client_round", "front", "reached", "bytes_to_target", "target_low", "target_high",
)  # fmt: skip
SECONDS = (
    "method", "metric", "score", "seeds", "mean", "ci_low", "ci_high", "virtual_seconds", "front", "in_time", "in_time_low",
    "in_time_high", "reached", "virtual_seconds_to_target", "target_low", "target_high",
)  # fmt: skip
PROFILES = ("method", "metric", "score", "threshold", "share")
TUNING = ("method", "metric", "validation_mean", "validation_sd", "test_mean", "test_sd", "chosen")
BENCH = (
    "workload", "how", "seconds", "least", "most", "times_lanes", "steps_per_second", "gflops", "share_of_peak", "peak_gflops",
    "lane_efficiency", "compile_seconds", "plan_seconds", "evaluation_seconds", "peak_bytes", "message_bytes",
)  # fmt: skip


def columns(records: Sequence[Record], order: Iterable[str]) -> list[str]:
    """Columns in their fixed order, those that apply to no record left out; behind them what links report, by name."""
    present = set().union(*records) if records else set(order)
    known = [name for name in order if name in present]
    return [*known, *sorted(name for name in present.difference(known) if REPORTED.search(name))]


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
            yield from (
                dict(zip(record, values, strict=True)) for values in _across(record.values())
            )
        else:
            yield record


def frame(records: Sequence[Record], order: Iterable[str]) -> pd.DataFrame:
    """Records as a frame ready to plot; what does not apply is missing (NaN), and a column of numbers is one of numbers."""
    table = pd.DataFrame.from_records(list(unstacked(records)), columns=columns(records, order))
    for name in [name for name in table if table[name].dtype == "object"]:
        with contextlib.suppress(ValueError, TypeError):  # words stay words
            table[name] = pd.to_numeric(table[name])
    return table


class _Lines(io.StringIO):
    """Text whose lines end with `\\n`, however they are handed over."""

    def write(self, line: str) -> int:
        """One line."""
        return super().write(line.removesuffix("\r\n") + "\n")


def to_csv(records: Sequence[Record], order: Iterable[str]) -> str:
    """Records as CSV text with `\\n` line ends.

    >>> to_csv([{"round": 0, "train_loss": None}, {"round": 1, "train_loss": float("nan")}], ("round", "train_loss"))
    'round,train_loss\\n0,\\n1,nan\\n'
    """
    text = _Lines()
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
    return zip(
        *(value if isinstance(value, list) else itertools.repeat(value) for value in values),
        strict=False,
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return (
            "nan" if math.isnan(value) else repr(float(value))
        )  # the shortest text that reads back exactly
    return inert(value) if isinstance(value, str) else str(value)


def inert(text: str) -> str:
    """Text that a spreadsheet shows and does not compute: names come from users, perhaps from strangers.

    Different texts stay different, and `unguarded` gives each of them back.

    >>> inert("=cmd()"), inert("'=cmd()"), inert("median")
    ("'=cmd()", "''=cmd()", 'median')
    """
    return GUARD + text if text.startswith((*COMPUTED, GUARD)) else text


def unguarded(cell: str) -> str:
    """The text of a cell that `inert` wrote.

    >>> unguarded("'=cmd()"), unguarded("''=cmd()"), unguarded("median")
    ('=cmd()', "'=cmd()", 'median')
    """
    return cell[1:] if is_guarded(cell) else cell


def is_guarded(cell: str) -> bool:
    """Whether `inert` put an apostrophe before the text of a cell; tables of earlier versions hold some that it did not."""
    return cell.startswith(GUARD) and cell[1:].startswith((*COMPUTED, GUARD))


@contextlib.contextmanager
def as_written(*paths: Path) -> Iterator[None]:
    """Tables that no run has written end in one line, whatever goes wrong with them: their readers rely on the columns.

    Raises:
      DirectoryError: instead of that error.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        places = ", ".join(map(str, paths))
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise DirectoryError(
            f"{places}: the tables are not as a run writes them ({reason})"
        ) from error


def read_table(path: Path, name: str, text: Sequence[str] = ()) -> pd.DataFrame | None:
    """One of a run directory's tables; None when it has none of that name.

    Args:
      path: of the run directory.
      name: of the table.
      text: further columns that stay text.
    """
    file = path / f"{name}.csv"
    if not file.is_file():
        return None
    try:
        cells = pd.read_csv(file, dtype=str, keep_default_na=False)
        return pd.DataFrame(
            {column: _read_back(column, list(cells[column]), text) for column in cells}
        )
    except (ValueError, OSError) as error:
        raise DirectoryError(f"{file}: cannot be read: {str(error).splitlines()[0]}") from None


def _read_back(column: str, cells: list[str], text: Sequence[str]) -> list[Any]:
    """A column as it was before it was written, to the bit; empty cells are missing."""
    named = column in NAMES and any(map(is_guarded, cells))  # numbers are never guarded
    cells = [unguarded(cell) for cell in cells]
    if named or column in (*TEXT, *text):
        return [cell or None for cell in cells]
    for kind in (int, float):
        if column in NAMES and not all(cell == "" or _is_written_so(cell, kind) for cell in cells):
            continue
        with contextlib.suppress(ValueError):
            return [kind(cell) if cell or kind is int else math.nan for cell in cells]
    return [cell or None for cell in cells]


def _is_written_so(cell: str, kind: type) -> bool:
    """Whether a cell is a number, in the way that numbers are written."""
    with contextlib.suppress(ValueError):
        return _cell(kind(cell)) == cell
    return False
