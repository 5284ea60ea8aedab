"""What differs of two runs, from the scenario to the models.

`fedsim verify` compares a seed with the same one played again, and `fedsim verify --against` a run
with another one, perhaps its repetition.
"""

import contextlib
import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.disk import files
from fedsim.disk.checkpoint import leaves_by_name
from fedsim.errors import CheckpointError
from fedsim.runs import directory
from fedsim.runs.differences import differences, without
from fedsim.runs.filenames import names_in
from fedsim.runs.result import OPTIONAL_TABLES
from fedsim.runs.unfinished import csv_of, is_complete, records_so_far, runs_of
from fedsim.scenario.named_files import without_hashed_paths
from fedsim.study.row_differences import Field, Line, RowDifferences, row_differences

# All tables but `timing`, which may differ between equal runs.
COMPARED_TABLES = ("rounds", "clients", "partition", *OPTIONAL_TABLES, "summary")

# What else of a record says which runs are compared, and which one a fork goes on from.
COMPARISON = ("kind", "method", "baseline", "score", "cells", "fork")


@dataclass(frozen=True)
class ModelDifference:
    """The difference of two model files.

    Attributes:
      absolute: the largest difference of two numbers that is finite; None where there are no two.
    """

    name: str
    what: str
    absolute: float | None


@dataclass(frozen=True)
class Difference:
    """Which part of two runs differs; a part without differences is empty.

    Attributes:
      a: one directory.
      b: the other one.
      groups: fields by group: scenario, numerics, data, own kinds, environment, end.
      tables: rows of the tables that differ.
      models: the model files that differ.
    """

    a: str
    b: str
    groups: dict[str, list[Field]]
    tables: dict[str, RowDifferences]
    models: list[ModelDifference]

    @property
    def equal(self) -> bool:
        """Whether the runs are the same and have the same results."""
        return not (any(self.groups.values()) or self.tables or self.models)

    def plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"equal": self.equal, **asdict(self)}


def diff(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Difference:
    """Compare two run directories, as far as their files exist: a run may be unfinished.

    Args:
      a: one of them.
      b: the other one.

    Returns:
      The parts that differ, `.equal` where the runs are the same and have the same results, and
      `.plain()` for JSON.

    Raises:
      DirectoryError: when one holds no run, or its record is damaged.
    """
    record_a = directory.sound_record(Path(a))
    record_b = directory.sound_record(Path(b))
    sources = ((Path(a), record_a), (Path(b), record_b))
    tables_a, tables_b = (_tables(*source) for source in sources)
    seeds = [str(record["scenario"]["seeds"][0]) for _, record in sources]
    return Difference(
        a=str(a),
        b=str(b),
        groups=record_differences(record_a, record_b),
        tables=tables_differ(tables_a, tables_b, seeds),
        models=_models(sources),
    )


# -------------------------------------------------------------------------------- the records


def record_differences(a: dict[str, Any], b: dict[str, Any]) -> dict[str, list[Field]]:
    """The fields of two records that decide what a run is, and differ, in groups."""
    groups_a = _groups(a)
    groups_b = _groups(b)
    return {name: _fields(groups_a[name], groups_b[name]) for name in groups_a}


def _groups(record: dict[str, Any]) -> dict[str, Any]:
    """The entries of a record that decide what a run is, in groups."""
    scenario = record["scenario"]
    return {
        "scenario": {
            **without(without_hashed_paths(scenario), "numerics"),
            **{name: record[name] for name in COMPARISON if name in record},
        },
        "numerics": scenario.get("numerics", {}),
        "data": without(record["hashes"], "scenario"),
        "own kinds": {"supplied": record["supplied"], "own_links": record["own_links"]},
        "environment": record["environment"],
        "end": {"status": record["status"], "reasons": record.get("reasons", {})},
    }


def _fields(a: Any, b: Any) -> list[Field]:
    return [Field(*difference) for difference in differences(a, b)]


# --------------------------------------------------------------------------------- the tables


def tables_differ(
    a: Mapping[str, str], b: Mapping[str, str], seeds: Sequence[str]
) -> dict[str, RowDifferences]:
    """The rows that differ, of the tables that do.

    Args:
      a: CSV texts by table.
      seeds: of the rows of each, in tables without a column for it.
    """
    unequal = {}
    seed_a, seed_b = seeds
    for name in COMPARED_TABLES:
        text_a = a.get(name)
        text_b = b.get(name)
        if text_a != text_b:
            unequal[name] = row_differences(_lines(text_a, seed_a), _lines(text_b, seed_b))
    return unequal


def _lines(text: str | None, seed: str) -> list[Line] | None:
    """The lines of a table by column; a run of one seed need not have a column for it."""
    if text is None:
        return None
    reader = csv.DictReader(io.StringIO(text), restkey="", restval="")
    return [{"seed": seed, **line} for line in reader]


def _tables(path: Path, record: dict[str, Any]) -> dict[str, str]:
    """The tables of a run; of an unfinished one those with rows, if they can be read."""
    tables = {}
    if is_complete(record):
        with files.reporting_os_errors(path):
            for name in COMPARED_TABLES:
                file = path / f"{name}.csv"
                if file.exists():
                    tables[name] = file.read_bytes().decode(errors="replace")
        return tables
    with contextlib.suppress(OSError, CheckpointError):
        records = records_so_far(record, runs_of(path, record))
        for name, text in csv_of(record, {name: rows for name, rows in records.items() if rows}):
            tables[name.removesuffix(".csv")] = text
    return tables


# --------------------------------------------------------------------------------- the models


def _models(sources: Sequence[tuple[Path, dict[str, Any]]]) -> list[ModelDifference]:
    """The model files that differ, of two directories with their records."""
    models_a, models_b = (_model_files(*source) for source in sources)
    (path_a, _), (path_b, _) = sources
    differing = []
    for run in sorted({*models_a, *models_b}):
        if run not in models_b:
            differing.append(ModelDifference(models_a[run].name, f"not in {path_b}", None))
        elif run not in models_a:
            differing.append(ModelDifference(models_b[run].name, f"not in {path_a}", None))
        else:
            differing += models_differ(models_a[run], models_b[run])
    return differing


def _model_files(path: Path, record: dict[str, Any]) -> dict[tuple[str, str], Path]:
    """Model files by label and seed: a label may have another name in another directory."""
    labels = {name: label for label, name in names_in(record).items()}
    by_run = {}
    for file in path.glob("model.*.safetensors"):
        run = file.name.removeprefix("model.").removesuffix(".safetensors")
        name, _, seed = run.rpartition(".")
        by_run[labels.get(name, name), seed] = file
    return by_run


def models_differ(a: Path, b: Path) -> list[ModelDifference]:
    """The difference of two model files, where there is one."""
    try:
        tensors_a = leaves_by_name("", directory.load_model(a))
        tensors_b = leaves_by_name("", directory.load_model(b))
    except OSError as error:
        return [ModelDifference(a.name, f"cannot be read: {error}", None)]
    if _shapes(tensors_a) != _shapes(tensors_b):
        return [ModelDifference(a.name, "different tensors", None)]

    unequal = []
    for name, tensor in tensors_a.items():
        if tensor.tobytes() != tensors_b[name].tobytes():
            unequal.append(name)
    if not unequal:
        return []
    largest = 0.0
    for name in unequal:
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(tensors_a[name].astype(float) - tensors_b[name].astype(float))
        largest = max(largest, float(gap[np.isfinite(gap)].max(initial=0.0)))
    text = f"{len(unequal)} of {len(tensors_a)} tensors differ"
    return [ModelDifference(a.name, text, largest)]


def _shapes(tensors: Mapping[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (tensor.dtype.name, tensor.shape) for name, tensor in tensors.items()}
