"""`fedsim diff`: which part of two runs differs, from what was asked for to what came out."""

import csv
import io
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.disk import files
from fedsim.disk import tables as frames
from fedsim.disk.checkpoint import decode, named
from fedsim.errors import CheckpointError
from fedsim.runs import directory
from fedsim.runs.execute import folder_of
from fedsim.runs.gaps import Field, Line, Rows, gaps
from fedsim.runs.journal import LOG, commits, differences
from fedsim.runs.result import ORDER
from fedsim.scenario.schema import placeless

TABLES = ("rounds", "clients", "partition", "summary")  # all but the one that may differ between equal runs
SHOWN = 20  # differing fields of a group, columns of a row


@dataclass(frozen=True)
class Model:
    """In what two model files differ."""

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
    tables: dict[str, Rows]
    models: list[Model]
    surroundings: list[Field] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether nothing differs that says what the runs are or what came out."""
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
      The parts that differ, `.equal` where none does that says what the runs are or what came out, and `.plain()` for
      JSON.

    Raises:
      DirectoryError: when one holds no run, or its record is damaged.
    """
    paths = Path(a), Path(b)
    one, two = map(directory.sound_record, paths)
    return Difference(
        str(a),
        str(b),
        {name: _fields(part(one), part(two)) for name, part in PARTS.items()},
        _tables(paths, (one, two)),
        _models(*paths),
        _fields(_surroundings(one), _surroundings(two)),
    )


def _scenario(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in placeless(record["scenario"]).items() if name != "numerics"}


def _surroundings(record: dict[str, Any]) -> dict[str, Any]:
    """Where a run took place, and where its data file lay."""
    path = (record["scenario"].get("data") or {}).get("path")
    there = {"data": path if len(path) < 50 else f"...{path[-50:]}"} if isinstance(path, str) else {}
    return {**(record.get("surroundings") or {}), **there}


def _numerics(record: dict[str, Any]) -> dict[str, Any]:
    return record["scenario"].get("numerics", {})


def _data(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record["hashes"].items() if name != "scenario"}


PARTS = {
    "scenario": _scenario,
    "numerics": _numerics,
    "data": _data,
    "own links": lambda record: {name: record[name] for name in ("supplied", "own_links")},
    "environment": lambda record: record["environment"],
    "end": lambda record: {"status": record.get("status"), "reasons": record.get("reasons", {})},
}


def _fields(a: Any, b: Any) -> list[Field]:
    return [Field(*found) for found in differences(a, b)]


def _tables(paths: tuple[Path, Path], records: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Rows]:
    logs = [_logged(path, record) for path, record in zip(paths, records, strict=True)]
    found = {}
    for name in TABLES:
        a, b = (_text(path, name, log) for path, log in zip(paths, logs, strict=True))
        if a != b:
            found[name] = gaps(*(_lines(text, record) for text, record in zip((a, b), records, strict=True)))
    return found


def _text(path: Path, name: str, log: dict[str, list[frames.Record]]) -> str | None:
    """A table's file, or what the logs hold of it while the run has not ended; None where there is nothing."""
    file = path / f"{name}.csv"
    if file.exists():
        with files.told(file):
            return file.read_bytes().decode(errors="replace")
    return frames.to_csv(log[name], ORDER[name]) if name in log else None


def _logged(path: Path, record: dict[str, Any]) -> dict[str, list[frames.Record]]:
    """Rows that a run has committed so far, as far as they can be read."""
    tables: dict[str, list[frames.Record]] = {}
    for seed in record["scenario"]["seeds"]:
        folder = folder_of(path, record["method"], seed)
        for commit in commits(folder)[::-1] if folder.is_dir() else []:
            try:
                length = decode(commit.read_bytes()).values["log"]["length"]
                lines = [json.loads(line) for line in (folder / LOG).read_bytes()[:length].splitlines()]
                break
            except (OSError, CheckpointError, KeyError, TypeError, ValueError, RecursionError):
                lines = []  # the commit before may be whole
        else:
            continue
        for table, row in lines:
            tables.setdefault(table, []).append(row)
    return tables


def _lines(text: str | None, record: dict[str, Any]) -> list[Line] | None:
    """Lines of a table by column, every one with its seed; a table of a single seed need not name it."""
    if text is None:
        return None
    seed = str(record["scenario"]["seeds"][0])
    return [{"seed": seed, **line} for line in csv.DictReader(io.StringIO(text), restkey="", restval="")]


def _models(a: Path, b: Path) -> list[Model]:
    names = sorted({file.name for path in (a, b) for file in path.glob("model.*.safetensors")})
    return [found for name in names if (found := _model(name, a / name, b / name))]


def _model(name: str, a: Path, b: Path) -> Model | None:
    missing = [path for path in (a, b) if not path.exists()]
    if missing:
        return Model(name, f"not in {missing[0].parent}", None)
    try:
        one, two = (named("", directory.load_model(path)) for path in (a, b))
    except OSError as error:
        return Model(name, f"cannot be read: {error}", None)
    shapes = [{leaf: (array.dtype.name, array.shape) for leaf, array in found.items()} for found in (one, two)]
    if shapes[0] != shapes[1]:
        return Model(name, "other tensors", None)
    unequal = [leaf for leaf in one if one[leaf].tobytes() != two[leaf].tobytes()]
    if not unequal:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = [np.abs(one[leaf].astype(float) - two[leaf].astype(float)) for leaf in unequal]
    finite = [float(gap[np.isfinite(gap)].max(initial=0.0)) for gap in gaps]
    odd = sum(int((~np.isfinite(gap)).sum()) for gap in gaps)
    what = f"{len(unequal)} of {len(one)} tensors differ{f', {odd} numbers not finite' if odd else ''}"
    return Model(name, what, max(finite))


def described(found: Difference) -> Iterator[str]:
    """What differs, as lines to read."""
    for name, fields in found.groups.items():
        yield from _listed(name, fields)
    for name, rows in found.tables.items():
        yield f"{name}.csv: {_counted(found, rows)}"
        yield from (f"  {cell.name}: {cell.a} | {cell.b}" for cell in rows.fields[:SHOWN])
        for column in rows.columns:
            if column.absolute is not None:
                gap = f"{column.absolute:.3g}, relative {column.relative:.3g}"
                yield f"  {column.name}: differs in {column.rows} row{'s'[: column.rows > 1]}, by at most {gap}"
    for model in found.models:
        yield f"{model.name}: {model.what}" + (
            f", by at most {model.absolute:.3g}" if model.absolute is not None else ""
        )
    yield from _listed("surroundings (which change no bit)", found.surroundings)
    parts = {**found.groups, **{f"{name}.csv": found.tables.get(name) for name in TABLES}, "models": found.models}
    same = [name for name, part in parts.items() if not part]
    yield f"the same: {', '.join(same)}" if same else "nothing is the same"


def _listed(name: str, fields: list[Field]) -> Iterator[str]:
    if fields:
        yield name
    yield from (f"  {field_.name}: {field_.a} | {field_.b}" for field_ in fields[:SHOWN])
    if len(fields) > SHOWN:
        yield f"  ... {len(fields) - SHOWN} more"


def _counted(found: Difference, rows: Rows) -> str:
    if rows.a is None or rows.b is None:
        return f"not in {found.a if rows.a is None else found.b}"
    alone = [f"{n} only in {path}" for n, path in ((rows.only_a, found.a), (rows.only_b, found.b)) if n]
    counts = ", ".join([f"{rows.differing} of {rows.a - rows.only_a} rows differ", *alone])
    return f"{counts}; first: {rows.first}" if rows.first else counts
