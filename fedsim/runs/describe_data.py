"""`fedsim data describe`: what a path holds, in numbers, and the `data:` section that reads it.

Nothing is trained.
"""

import contextlib
import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import yaml

from fedsim.assemble.links import factory_of, locate_link_errors
from fedsim.assemble.samples import images_of
from fedsim.errors import DataError
from fedsim.kinds.targets import columns_of
from fedsim.scenario import Scenario, read
from fedsim.sources import sha256_of_data
from fedsim.sources.columns import IDS
from fedsim.sources.describe import describe_arrays
from fedsim.sources.formats import guess_columns, kind_of
from fedsim.sources.summary import Summary, summary_of

WITH_MISSING = ("npz", "csv", "parquet", "xlsx", "huggingface")  # kinds with the key `missing`
TABLES = ("csv", "parquet", "xlsx")  # kinds whose columns are described one by one
COUNTED = (  # the keys of `describe_arrays`
    "rows",
    "test_rows",
    "shape",
    "type",
    "scale",
    "vocabulary",
    "features",
    "target",
    "clients",
    "columns",
    "missing",
    "bytes",
)

# Samples without ids are partitioned among so many clients, if each of them gets so many.
CLIENTS = 100
SAMPLES_PER_CLIENT = 10

MANY_TEXTS = 100  # different texts of a column that are no classes


def describe(path: str, edits: Iterable[str] = ()) -> dict[str, Any]:
    """What a path holds; of a table also its columns, whether it can be read as samples or not.

    Args:
      edits: `KEY=VALUE` of the `data:` section, such as `target=wage`.

    Returns:
      `path`, `kind`, `sha256`, what `describe_arrays` counts (None, but for
      `rows`, where a table cannot be read as samples), `summary` (of a table, by column; see
      `fedsim.sources.summary.Summary`), `problems` (lines that say why it cannot be read), `data`
      (the section), `yaml` (its text), and `notes` (sentences).

    Raises:
      DataError: for a path that holds no known form of data, for what is not a table and cannot be
        read as samples, and for a file that cannot be read.
    """
    kind = kind_of(path)
    edits = [edit.removeprefix("data.") for edit in edits]
    section = {"kind": kind, "path": _path_in_scenario(path)}
    summary = _summary(section, edits)
    guessed = _guessed_keys(summary, edits, os.path.isdir(path))
    section |= guessed

    problems: list[str] = []
    about_samples: list[str] = []
    try:
        scenario, arrays, has_blanks = _read_samples(section, edits)
        images = images_of(scenario.spec.data, arrays, are_supplied=False)
        counted = describe_arrays(images.arrays)
        about_samples = [*images.remarks, *_about_samples(arrays, scenario.spec.data)]
    except DataError as error:
        if summary is None:
            raise
        lines = [line.removeprefix(f"{section['path']}: ") for line in error.lines]
        problems = [*error.by_column.values()] or lines
        counted = {**dict.fromkeys(COUNTED), "rows": summary.rows}
        scenario = _scenario(section, edits)
        has_blanks = False

    section |= scenario.document.values["data"]
    about_samples += _about_columns(summary, scenario.spec.data)
    notes = [*_notes(section, guessed), *about_samples]
    if summary is not None and summary.note:
        notes.append(summary.note)
    if problems and summary is not None and section["kind"] == "csv":
        notes += _about_text(summary, section)
    if counted["clients"] is None and not problems:
        most = counted["rows"] // SAMPLES_PER_CLIENT
        section.setdefault("clients", max(min(CLIENTS, most), 1))
    if has_blanks:
        section["missing"] = "mean"
        ways = "median fills them with medians, drop leaves their samples out"
        notes.append(f"blanks are filled with means; {ways}")
    text = yaml.safe_dump({"data": section}, sort_keys=False, allow_unicode=True)
    return {
        "path": path,
        "kind": kind,
        "sha256": sha256_of_data(path),
        **counted,
        "summary": [] if summary is None else summary.columns,
        "problems": problems,
        "data": section,
        "yaml": text,
        "notes": notes,
    }


def _about_samples(arrays: Any, section: Any) -> list[str]:
    """What was decided about the target."""
    notes = list(arrays.remarks)
    y = np.asarray(arrays.y)
    is_single = isinstance(getattr(section, "target", None), str)
    if arrays.table is not None and section.task is None and arrays.labels is None and is_single:
        if y.dtype.kind in "iu":
            notes.append("target: whole numbers are classes; task: regression predicts numbers")
        elif y.dtype.kind == "f" and (np.floor(y) == y).all():
            notes.append("target: 1.0 is a number to predict; task: classification makes a class")
    return notes


def _about_columns(summary: Summary | None, section: Any) -> list[str]:
    """Columns that may be no features, with the key that leaves each out."""
    if summary is None:
        return []
    roles = {*columns_of(section.target), section.client, *section.columns, *section.drop}
    notes = []
    for column in summary.columns:
        name = column["name"]
        if column["remark"] and name not in roles and not IDS.fullmatch(name):
            notes.append(f"column {name[:40]!a} {column['remark']}; drop: [{name[:40]!a}]")
    return notes


def _about_text(summary: Summary, section: dict[str, Any]) -> list[str]:
    """How the next tokens of a column of texts are learned, where the target is such a column."""
    for column in summary.columns:
        is_target = column["name"] == section["target"]
        if is_target and column["type"] == "text" and column["distinct"] > MANY_TEXTS:
            source = f"path: {section['path']}, column: {column['name']}"
            return [
                f"to learn the next character or word: {{kind: text, {source}, client: COLUMN}}"
            ]
    return []


def _summary(section: dict[str, Any], edits: list[str]) -> Summary | None:
    """What the columns of a table hold; None for data of other kinds."""
    if section["kind"] not in TABLES:
        return None
    spec = _scenario(section, edits).spec.data
    names = ("delimiter", "decimal", "sheet")
    keys = {key: getattr(spec, key) for key in names if hasattr(spec, key)}
    return summary_of(section["kind"], section["path"], **keys)


def _path_in_scenario(path: str) -> str:
    """A path as a scenario in the working directory writes it: relative, where it is below that."""
    relative = os.path.relpath(path)
    return os.path.normpath(path) if relative.startswith("..") else relative


def _guessed_keys(summary: Summary | None, edits: Iterable[str], is_folder: bool) -> dict[str, Any]:
    """Keys of the section that are guessed, without those that the user gives."""
    if summary is None:
        return {}
    given = {edit.partition("=")[0] for edit in edits}
    ids = {column["name"] for column in summary.columns if column["distinct"] == summary.rows}
    names = [column["name"] for column in summary.columns]
    guessed: dict[str, Any] = {**guess_columns(names, ids)}
    if is_folder:
        guessed.pop("client", None)  # the files
    dates = [column["name"] for column in summary.columns if column["type"] == "dates"]
    dates = [name for name in dates if name not in guessed.values()]
    if dates and "dates" not in given:
        guessed["drop"] = dates
    return {key: value for key, value in guessed.items() if key not in given}


def _read_samples(section: dict[str, Any], edits: Iterable[str]) -> tuple[Scenario, Any, bool]:
    """Read the samples -> the scenario that does so, the samples, and whether there are blanks.

    Blanks stay in them, so that they can be counted.
    """
    try:
        scenario = _scenario(section, edits)
        return scenario, _arrays(scenario), False
    except DataError as error:
        is_about_blanks = re.search("blank|not finite", str(error)) is not None
        if section["kind"] not in WITH_MISSING or not is_about_blanks:
            raise
        with contextlib.suppress(DataError):
            scenario = _scenario({**section, "missing": "mean"}, edits)
            return scenario, _arrays(scenario), True
        raise


def _scenario(section: dict[str, Any], edits: Iterable[str]) -> Scenario:
    values = {"name": "described", "data": section}
    return read(values, tuple(f"data.{edit}" for edit in edits))


@locate_link_errors
def _arrays(scenario: Scenario) -> Any:
    return factory_of(scenario.spec.data)()


def _notes(section: dict[str, Any], guessed: Iterable[str]) -> list[str]:
    """Sentences about what was guessed, and about the folder that a scenario can be in."""
    notes = []
    for key in ("target", "client"):
        if key in guessed:
            notes.append(f"{key}: {section[key]} is guessed from its name")
    if "drop" in guessed:
        listed = ", ".join(section["drop"])[:120]
        notes.append(f"dates are left out ({listed}); dates: ordinal makes days since 1970 of them")
    path = section["path"]
    if path.startswith(("..", os.sep)):
        folder = os.path.dirname(os.path.abspath(path))
        notes.append(f"a scenario elsewhere reads it with --data-root {folder}")
    return notes
