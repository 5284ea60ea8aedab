"""`fedsim data describe`: what lies at a path, in numbers, and the `data:` section that reads it; trains nothing."""

import contextlib
import os
import re
from collections.abc import Iterable
from typing import Any

import yaml

from fedsim.assemble.links import factory_of, locate_link_errors
from fedsim.errors import DataError
from fedsim.scenario import Scenario, read
from fedsim.sources import sha256_of_data
from fedsim.sources.describe import described
from fedsim.sources.formats import guessed_keys, kind_of
from fedsim.sources.summary import Summary, summary_of

BLANKS = ("npz", "csv", "parquet", "huggingface")  # kinds with the key `missing`
TABLES = ("csv", "parquet")  # kinds whose columns are told one by one
COUNTED = (
    "rows", "test_rows", "shape", "type", "scale", "vocabulary", "features", "target", "clients", "columns", "missing", "bytes",
    "in_file",
)  # fmt: skip
CLIENTS = 100  # that samples without ids are dealt to, where there are ten for each


def describe(path: str, edits: Iterable[str] = ()) -> dict[str, Any]:
    """What lies at a path; of a table also what its columns hold, whether samples can be made of it or not.

    Args:
      path: of a file or a folder.
      edits: `KEY=VALUE` of the `data:` section, such as `target=wage`.

    Returns:
      `path`, `kind`, `sha256`, what `fedsim.sources.describe.described` counts (None where no samples can be made of a
      table, but for `rows`), `summary` (of a table, by column; see `fedsim.sources.summary.Summary`), `problems` (lines that
      keep samples from being made of it), `data` (the section), `yaml` (its text), and `notes` (sentences).

    Raises:
      DataError: for a path that holds no known form of data, what is no table and no samples can be made of, and a file
        that cannot be read.
      ScenarioError: for keys that the kind does not have.
      OSError: where there is nothing.
    """
    kind, edits = kind_of(path), [edit.removeprefix("data.") for edit in edits]
    section = {"kind": kind, "path": _written(path)}
    summary = _summary(section, edits)
    guessed = _keys(kind, summary, edits)
    section |= guessed
    problems: list[str] = []
    try:
        scenario, arrays, blanks = _with_blanks(section, edits)
        counted = described(arrays)
    except DataError as error:
        if summary is None:
            raise
        problems = _problems(error, summary, section["path"])
        counted = {**dict.fromkeys(COUNTED), "rows": summary.rows}
        scenario, blanks = _scenario(section, edits), False
    section |= scenario.document.values["data"]
    notes = _notes(section, guessed)
    if counted["clients"] is None and not problems:
        section.setdefault("clients", max(min(CLIENTS, counted["rows"] // 10), 1))
    if blanks:
        section["missing"] = "mean"
        notes.append(
            "blanks are filled with means; median fills in medians, drop leaves their samples out"
        )
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


def _summary(section: dict[str, Any], edits: list[str]) -> Summary | None:
    """What the columns of a table hold; None for data of other kinds."""
    if section["kind"] not in TABLES:
        return None
    spec = _scenario(section, edits).spec.data
    keys = {key: getattr(spec, key) for key in ("delimiter", "decimal") if hasattr(spec, key)}
    return summary_of(section["kind"], section["path"], **keys)


def _problems(error: DataError, summary: Summary, path: str) -> list[str]:
    """What keeps samples from being made of a table, in a line for each column."""
    if error.by_column:
        told_by_column = {**summary.problems, **error.by_column}
        order = ["", *(column["name"] for column in summary.columns)]
        return [
            told_by_column[name]
            for name in dict.fromkeys((*order, *told_by_column))
            if name in told_by_column
        ]
    lines = [line.removeprefix(f"{path}: ") for line in error.lines]
    told = "\n".join(lines)
    whole = [line for name, line in summary.problems.items() if not name and line not in told]
    return [
        *whole,
        *lines,
        *(line for name, line in summary.problems.items() if name and ascii(name) not in told),
    ]


def _written(path: str) -> str:
    """A path as a scenario in the working directory writes it, where it lies below that."""
    near = os.path.relpath(path)
    return os.path.normpath(path) if near.startswith("..") else near


def _keys(kind: str, summary: Summary | None, edits: Iterable[str]) -> dict[str, str]:
    """Keys that are guessed, but for those that the user gives."""
    if summary is None:
        return {}
    given = {edit.partition("=")[0] for edit in edits}
    keys = guessed_keys([column["name"] for column in summary.columns])
    if summary.decimal_comma:
        keys["decimal"] = ","
    return {key: value for key, value in keys.items() if key not in given}


def _with_blanks(section: dict[str, Any], edits: Iterable[str]) -> tuple[Scenario, Any, bool]:
    """The samples, and whether there are blanks, which stay in them to be counted."""
    try:
        return *_arrays(section, edits), False
    except DataError as error:
        if section["kind"] not in BLANKS or not re.search("blank|not finite", str(error)):
            raise
        with contextlib.suppress(DataError):
            return *_arrays({**section, "missing": "mean"}, edits), True
        raise


def _arrays(section: dict[str, Any], edits: Iterable[str]) -> tuple[Scenario, Any]:
    scenario = _scenario(section, edits)
    return scenario, _read(scenario)


def _scenario(section: dict[str, Any], edits: Iterable[str]) -> Scenario:
    return read({"name": "described", "data": section}, tuple(f"data.{edit}" for edit in edits))


@locate_link_errors
def _read(scenario: Scenario) -> Any:
    return factory_of(scenario.spec.data)()


def _notes(section: dict[str, Any], guessed: Iterable[str]) -> list[str]:
    """What was guessed, and where a scenario has to stand."""
    notes = [
        f"{key}: {section[key]} is a guess by name"
        for key in ("target", "client")
        if key in guessed
    ]
    if "decimal" in guessed:
        notes.append("decimal: ',' is a guess by the cells")
    if section["path"].startswith(("..", os.sep)):
        notes.append(
            f"a scenario elsewhere reads it with --data-root {os.path.dirname(os.path.abspath(section['path']))}"
        )
    return notes
