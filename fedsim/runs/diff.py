"""`fedsim diff`: which part of two runs differs, from the scenario to the models."""

import contextlib
import csv
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.disk import files
from fedsim.disk.checkpoint import named
from fedsim.errors import CheckpointError
from fedsim.runs import directory
from fedsim.runs.filenames import names_in
from fedsim.runs.journal import differences
from fedsim.runs.result import OPTIONAL
from fedsim.runs.unfinished import csv_of, ended, records_so_far, runs_of
from fedsim.scenario.named_files import naming_files, without_hashed_paths
from fedsim.study.row_differences import Field, Line, RowDifferences, row_differences

TABLES = (
    "rounds",
    "clients",
    "partition",
    *OPTIONAL,
    "summary",
)  # all but the one that may differ between equal runs


@dataclass(frozen=True)
class ModelDifference:
    """The difference of two model files."""

    name: str
    what: str
    absolute: float | None  # the largest difference of two numbers


@dataclass(frozen=True)
class Difference:
    """Which part of two runs differs; a part without differences is empty.

    Attributes:
      a: one directory.
      b: the other one.
      groups: fields by group: scenario, numerics, data, own links, environment, end.
      tables: rows of the tables that differ.
      models: the model files that differ.
      surroundings: where the two took place, which changes no bit.
    """

    a: str
    b: str
    groups: dict[str, list[Field]]
    tables: dict[str, RowDifferences]
    models: list[ModelDifference]
    surroundings: list[Field] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether nothing differs that decides what the runs are, or in their results."""
        return not (any(self.groups.values()) or self.tables or self.models)

    def plain(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return {"equal": self.equal, **asdict(self)}


def diff(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Difference:
    """Compare two run directories, as far as their files are there: a run need not have ended.

    Args:
      a: one of them.
      b: the other one.

    Returns:
      The parts that differ, `.equal` where none does that decides what the runs are or belongs to their results, and
      `.plain()` for JSON.

    Raises:
      DirectoryError: when one holds no run, or its record is damaged.
    """
    paths = Path(a), Path(b)
    one, two = map(directory.sound_record, paths)
    return Difference(
        a=str(a),
        b=str(b),
        groups={name: _fields(group(one), group(two)) for name, group in GROUPS.items()},
        tables=_tables(paths, (one, two)),
        models=_models(paths, (one, two)),
        surroundings=_fields(_surroundings(one), _surroundings(two)),
    )


GROUPS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "scenario": lambda record: _without("numerics", without_hashed_paths(record["scenario"])),
    "numerics": lambda record: record["scenario"].get("numerics", {}),
    "data": lambda record: _without("scenario", record["hashes"]),
    "own links": lambda record: {name: record[name] for name in ("supplied", "own_links")},
    "environment": lambda record: record["environment"],
    "end": lambda record: {"status": record.get("status"), "reasons": record.get("reasons", {})},
}


def _without(name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _surroundings(record: dict[str, Any]) -> dict[str, Any]:
    """Where a run took place, and where its files lay."""
    paths = {place[-1]: section["path"] for place, section in naming_files(record["scenario"])}
    short = {
        n: p if len(p) < 50 else f"...{p[-50:]}" for n, p in paths.items() if isinstance(p, str)
    }
    return {**(record.get("surroundings") or {}), **short}


def _fields(a: Any, b: Any) -> list[Field]:
    return [Field(*field) for field in differences(a, b)]


def _tables(
    paths: tuple[Path, Path], records: tuple[dict[str, Any], dict[str, Any]]
) -> dict[str, RowDifferences]:
    so_far = [_so_far(path, record) for path, record in zip(paths, records, strict=True)]
    unequal = {}
    for name in TABLES:
        a, b = (_text(path, name, texts) for path, texts in zip(paths, so_far, strict=True))
        if a != b:
            lines = (_lines(text, record) for text, record in zip((a, b), records, strict=True))
            unequal[name] = row_differences(*lines)
    return unequal


def _text(path: Path, name: str, so_far: Mapping[str, str] | None) -> str | None:
    """A table's file, or what a run that has not ended has committed; None where there is none."""
    file = path / f"{name}.csv"
    if so_far is not None:
        return so_far.get(file.name)
    if not file.exists():
        return None
    with files.naming(file):
        return file.read_bytes().decode(errors="replace")


def _so_far(path: Path, record: dict[str, Any]) -> dict[str, str] | None:
    """Tables with rows by file name, of a run that has not ended, as far as they can be read; None of one that has."""
    if ended(record):
        return None
    with contextlib.suppress(OSError, CheckpointError):
        rows = records_so_far(record, runs_of(path, record))
        return dict(csv_of(record, {name: records for name, records in rows.items() if records}))
    return {}


def _lines(text: str | None, record: dict[str, Any]) -> list[Line] | None:
    """Lines of a table by column, every one with its seed; a table of a single seed need not name it."""
    if text is None:
        return None
    seed = str(record["scenario"]["seeds"][0])
    return [
        {"seed": seed, **line} for line in csv.DictReader(io.StringIO(text), restkey="", restval="")
    ]


def _models(
    paths: tuple[Path, Path], records: tuple[dict[str, Any], dict[str, Any]]
) -> list[ModelDifference]:
    files = [_model_files(path, record) for path, record in zip(paths, records, strict=True)]
    differing = []
    for run in sorted({*files[0], *files[1]}):
        a, b = (by_run.get(run) for by_run in files)
        if a and b:
            difference = _model(a, b)
        else:
            (name,) = (file.name for file in (a, b) if file)
            difference = ModelDifference(name, f"not in {paths[1] if a else paths[0]}", None)
        if difference:
            differing.append(difference)
    return differing


def _model_files(path: Path, record: dict[str, Any]) -> dict[tuple[str, str], Path]:
    """Model files by label and seed: a label may have another name in another directory."""
    labels = {name: label for label, name in names_in(record).items()}
    files = {}
    for file in path.glob("model.*.safetensors"):
        name, _, seed = (
            file.name.removeprefix("model.").removesuffix(".safetensors").rpartition(".")
        )
        files[labels.get(name, name), seed] = file
    return files


def _model(a: Path, b: Path) -> ModelDifference | None:
    name = a.name
    try:
        one, two = (named("", directory.load_model(path)) for path in (a, b))
    except OSError as error:
        return ModelDifference(name, f"cannot be read: {error}", None)
    shapes = [
        {leaf: (array.dtype.name, array.shape) for leaf, array in model.items()}
        for model in (one, two)
    ]
    if shapes[0] != shapes[1]:
        return ModelDifference(name, "other tensors", None)
    unequal = [leaf for leaf in one if one[leaf].tobytes() != two[leaf].tobytes()]
    if not unequal:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = [np.abs(one[leaf].astype(float) - two[leaf].astype(float)) for leaf in unequal]
    finite = [float(gap[np.isfinite(gap)].max(initial=0.0)) for gap in gaps]
    infinite = sum(int((~np.isfinite(gap)).sum()) for gap in gaps)
    numbers = f", {infinite} numbers not finite" if infinite else ""
    return ModelDifference(
        name, f"{len(unequal)} of {len(one)} tensors differ{numbers}", max(finite)
    )
