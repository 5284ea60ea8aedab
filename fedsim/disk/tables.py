"""The CSV format: records -> data frames and CSV text -> data frames, bit for bit.

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
from typing import Any, NamedTuple

import pandas as pd

from fedsim.disk.scores import OF_CLIENTS
from fedsim.errors import DirectoryError
from fedsim.installed import modules_with

# A row, or a stack of rows: values that are lists have one entry per row, others hold for all rows.
Record = dict[str, Any]

COMPUTED = ("=", "+", "-", "@", "\t", "\r")  # prefixes of cells that a spreadsheet computes
GUARD = "'"  # written in front of such text, and of text that begins with it
NAMES = ("client", "label")  # columns of numbers or names; 007 is a name
TEXT = (
    "method",
    "baseline",
    "variant",
    "tuned",
    "reason",
    "not_federated",
)  # columns that stay text when read
MAX_LISTED_CLIENTS = 100_000  # beyond, tables of clients list only those that took part
# Columns that links report, `krum/malicious_kept`, and what fields measure of any set or clients.
REPORTED = re.compile(r"/|^malicious_kept$|^(test|validation|client|personal|global)_")


class Added(NamedTuple):
    """Columns of a table, or a table of a run, that a field adds.

    Attributes:
      to: the table; empty for a new one.
      after: what they stand behind: the first of these that there is.
      table: the name of a new table, which is written where it has rows.
    """

    to: str
    after: tuple[str, ...]
    names: tuple[str, ...]
    table: str = ""


OF_FIELDS: list[Added] = [each for module in modules_with("COLUMNS") for each in module.COLUMNS]
# Tables of fields by name.
TABLES_OF_FIELDS = {each.table: each.names for each in OF_FIELDS if each.table}


def with_added(table: str, own: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table with those that fields add."""
    names = list(own)
    for each in OF_FIELDS:
        if each.to == table:
            place = behind(names, each.after)
            names[place:place] = each.names
    return tuple(names)


def behind(names: Sequence[str], after: tuple[str, ...]) -> int:
    """Return the place behind the first of some names that is there; the end if none is."""
    return next((names.index(name) + 1 for name in after if name in names), len(names))


# The columns of the tables, in their order; `files.yaml` says what they mean.
ROUNDS = with_added("rounds", (
    "method", "seed", "round", "virtual_seconds", "bytes_up", "bytes_down",
    "clients_sampled", "clients_reported", "malicious_reported", "n_nonfinite", "skipped",
    "batches_cut", "train_loss",
    "test_loss", "test_accuracy", "test_perplexity", "test_r2", "test_mae",
    "validation_loss", "validation_accuracy", "validation_perplexity",
    "validation_r2", "validation_mae",
    *(f"client_accuracy_{name}" for name in OF_CLIENTS),
    *(f"client_mae_{name}" for name in OF_CLIENTS),
    *(f"personal_accuracy_{name}" for name in OF_CLIENTS),
    *(f"personal_mae_{name}" for name in OF_CLIENTS),
))  # fmt: skip
TIMING = (
    "method", "seed", "round",
    "wall_seconds", "compile_seconds", "steps_per_second", "lane_efficiency", "local_steps",
)  # fmt: skip
CLIENTS = with_added("clients", (
    "method", "seed", "client", "samples", "classes",
    "rounds_joined", "bytes_up", "bytes_down",
    "global_loss", "global_accuracy", "global_mae",
    "personal_loss", "personal_accuracy", "personal_mae",
))  # fmt: skip
PARTITION = ("seed", "client", "label", "samples")
SUMMARY = with_added("summary", (
    "method", "seed", "metric", "final", "best", "mean_last_k", "k", "own",
    "rounds_to_target", "bytes_to_target", "virtual_seconds_to_target", "diverged",
    "client_accuracy_p10", "client_accuracy_p20", "client_accuracy_p30",
    "client_accuracy_p40", "client_accuracy_p50", "client_accuracy_p60",
    "client_accuracy_p70", "client_accuracy_p80", "client_accuracy_p90",
    "client_accuracy_worst", "client_accuracy_std",
    "reason", "status", "not_federated",
))  # fmt: skip
COMPARE = with_added("compare", (
    "method", "baseline", "metric", "score", "seeds", "mean", "sd",
    "difference", "ci_low", "ci_high", "p_value", "p_adjusted",
    "effect_size", "probability_of_improvement", "p_wilcoxon", "diverged", "failed", "not_run",
    "verdict",
))  # fmt: skip
# in compare.csv, of tuned methods
SENSITIVITY = ("tuned", "trials", "tuning_steps", "sensitivity_low", "sensitivity_high")
ACROSS = (
    "method", "metric", "score", "variations", "left_out",
    "iqm", "ci_low", "ci_high", "mean_rank",
)  # fmt: skip
WORST = (
    "method", "metric", "score", "attacks", "attack", "seeds",
    "mean", "sd", "ci_low", "ci_high", "best", "p_adjusted",
)  # fmt: skip
BREAKDOWN = ("method", "metric", "score", "values", "untrained", "mean", "holds", "falls")
BYTES = (
    "method", "metric", "score", "seeds", "mean", "ci_low", "ci_high",
    "bytes_up", "bytes_down", "up_per_client_round", "down_per_client_round", "front",
    "reached", "bytes_to_target", "target_low", "target_high",
)  # fmt: skip
SECONDS = (
    "method", "metric", "score", "seeds", "mean", "ci_low", "ci_high",
    "virtual_seconds", "front", "in_time", "in_time_low", "in_time_high",
    "reached", "virtual_seconds_to_target", "target_low", "target_high",
)  # fmt: skip
PROFILES = ("method", "metric", "score", "threshold", "share")
TUNING = (
    "method", "metric", "validation_mean", "validation_sd", "test_mean", "test_sd",
    "local_steps", "best_seeds", "bracket", "rung", "chosen",
)  # fmt: skip


def columns(records: Sequence[Record], order: Iterable[str]) -> list[str]:
    """Return the columns that apply to any record: in their order, then those of links, by name."""
    if not records:
        return list(order)
    present = set().union(*records)
    ordered = [name for name in order if name in present]
    reported = [name for name in present.difference(ordered) if REPORTED.search(name)]
    return ordered + sorted(reported)


def stacked(record: Record) -> bool:
    """Return whether a record is a stack of rows."""
    return any(isinstance(value, list) for value in record.values())


def unstacked(records: Iterable[Record]) -> Iterator[Record]:
    """Yield records row by row.

    >>> list(unstacked([{"seed": 0, "client": [3, 4]}, {"seed": 1, "client": 5}]))
    [{'seed': 0, 'client': 3}, {'seed': 0, 'client': 4}, {'seed': 1, 'client': 5}]
    """
    for record in records:
        if not stacked(record):
            yield record
            continue
        for values in _rows_of(record.values()):
            yield dict(zip(record, values, strict=True))


def frame(records: Sequence[Record], order: Iterable[str]) -> pd.DataFrame:
    """Return records as a data frame ready to plot.

    Values that do not apply are missing (NaN); a column that holds only numbers has a numeric type.
    """
    table = pd.DataFrame.from_records(list(unstacked(records)), columns=columns(records, order))
    for name in table:
        if table[name].dtype == "object":
            with contextlib.suppress(ValueError, TypeError):  # words stay words
                table[name] = pd.to_numeric(table[name])
    return table


def to_csv(records: Sequence[Record], order: Iterable[str]) -> str:
    """Return records as CSV text with `\\n` line ends.

    >>> records = [{"round": 0, "train_loss": None}, {"round": 1, "train_loss": float("nan")}]
    >>> to_csv(records, ("round", "train_loss"))
    'round,train_loss\\n0,\\n1,nan\\n'
    """
    text = _Lines()
    names = columns(records, order)
    writer = csv.writer(text, lineterminator="\r\n")  # so that cells with \r or \n are quoted
    writer.writerow(names)
    for record in records:
        values = [record.get(name) for name in names]
        if stacked(record):
            writer.writerows(map(_cell, row) for row in _rows_of(values))
        else:
            writer.writerow(map(_cell, values))
    return text.getvalue()


def inert(text: str) -> str:
    """Return text that a spreadsheet shows and does not compute: names may come from strangers.

    Different texts stay different; `unguarded` is the inverse.

    >>> inert("=cmd()"), inert("'=cmd()"), inert("median")
    ("'=cmd()", "''=cmd()", 'median')
    """
    if text.startswith((*COMPUTED, GUARD)):
        return GUARD + text
    return text


def unguarded(cell: str) -> str:
    """Return the text of a cell that `inert` wrote.

    >>> unguarded("'=cmd()"), unguarded("''=cmd()"), unguarded("median")
    ('=cmd()', "'=cmd()", 'median')
    """
    return cell.removeprefix(GUARD) if is_guarded(cell) else cell


def is_guarded(cell: str) -> bool:
    """Return whether `inert` put an apostrophe in front of the text of a cell."""
    return cell.startswith(GUARD) and cell[1:].startswith((*COMPUTED, GUARD))


@contextlib.contextmanager
def reporting_table_errors(*paths: Path) -> Iterator[None]:
    """Turn any error in reading tables into one line: readers rely on the columns that runs write.

    Raises:
      DirectoryError: instead of that error.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        listed = ", ".join(map(str, paths))
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        message = f"{listed}: the tables are not as a run writes them ({reason})"
        raise DirectoryError(message) from error


def read_table(path: Path, name: str, text: Sequence[str] = ()) -> pd.DataFrame | None:
    """Return a table of a run directory; None when it has no table of that name.

    Args:
      text: further columns that stay text.
    """
    file = path / f"{name}.csv"
    if not file.is_file():
        return None
    try:
        cells = pd.read_csv(file, dtype=object, keep_default_na=False)
        values = {column: _read_back(column, cells[column].tolist(), text) for column in cells}
        return pd.DataFrame(values)
    except (ValueError, OSError) as error:
        raise DirectoryError(f"{file}: cannot be read: {str(error).splitlines()[0]}") from None


class _Lines(io.StringIO):
    """Text whose lines end with `\\n`, whatever ends they are written with."""

    def write(self, line: str) -> int:
        """Write one line."""
        return super().write(line.removesuffix("\r\n") + "\n")


def _rows_of(values: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of a stack, from its columns."""
    columns = [value if isinstance(value, list) else itertools.repeat(value) for value in values]
    return zip(*columns, strict=False)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        # `repr` is the shortest text that reads back exactly.
        return "nan" if math.isnan(value) else repr(float(value))
    if isinstance(value, str):
        return inert(value)
    return str(value)


def _read_back(column: str, cells: list[str], text: Sequence[str]) -> list[Any]:
    """The values of a column as they were written, bit for bit; empty cells are missing."""
    may_be_names = column in NAMES
    are_names = may_be_names and any(map(is_guarded, cells))  # numbers are never guarded
    if any(cell.startswith(GUARD) for cell in cells):
        cells = [unguarded(cell) for cell in cells]
    if are_names or column in (*TEXT, *text):
        return [cell or None for cell in cells]

    if not may_be_names or _are_canonical(cells, int):
        with contextlib.suppress(ValueError):
            return [int(cell) for cell in cells]
    if not may_be_names or _are_canonical(cells, float):
        with contextlib.suppress(ValueError):
            return [float(cell) if cell else math.nan for cell in cells]
    return [cell or None for cell in cells]


def _are_canonical(cells: Iterable[str], number_type: type) -> bool:
    """Whether all cells are numbers in the form in which they are written, or empty."""
    with contextlib.suppress(ValueError):
        return all(cell == "" or _cell(number_type(cell)) == cell for cell in cells)
    return False
