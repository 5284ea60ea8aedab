"""`fedsim data describe`: what lies at a path, in numbers, and the `data:` section that reads it; trains nothing."""

import contextlib
import os
import re
from collections.abc import Iterable
from typing import Any

import yaml

from fedsim.build.links import factory_of, locate_link_errors
from fedsim.errors import DataError
from fedsim.scenario import Scenario, read
from fedsim.sources import sha256_of_data
from fedsim.sources.describe import described
from fedsim.sources.formats import guessed_keys, kind_of

BLANKS = ("npz", "csv", "parquet", "huggingface")  # kinds with the key `missing`
CLIENTS = 100  # that samples without ids are dealt to, where there are ten for each


def describe(path: str, edits: Iterable[str] = ()) -> dict[str, Any]:
    """What lies at a path.

    Args:
      path: of a file or a folder.
      edits: `KEY=VALUE` of the `data:` section, such as `target=wage`.

    Returns:
      `path`, `kind`, `sha256`, what `fedsim.sources.describe.described` counts, `data` (the section), `yaml` (its text), and
      `notes` (sentences).

    Raises:
      DataError: for a path that holds no known form of data, or samples that cannot be learned from.
      ScenarioError: for keys that the kind does not have.
      OSError: where there is nothing.
    """
    kind, edits = kind_of(path), [edit.removeprefix("data.") for edit in edits]
    section = {"kind": kind, "path": _written(path), **_keys(kind, path, edits)}
    scenario, arrays, blanks = _with_blanks(section, edits)
    counted = described(arrays)
    section |= scenario.document.values["data"]
    notes = _notes(section, edits)
    if counted["clients"] is None:
        section.setdefault("clients", max(min(CLIENTS, counted["rows"] // 10), 1))
    if blanks:
        section["missing"] = "mean"
        notes.append("blanks are filled with means; median fills in medians, drop leaves their samples out")
    text = yaml.safe_dump({"data": section}, sort_keys=False, allow_unicode=True)
    return {
        "path": path,
        "kind": kind,
        "sha256": sha256_of_data(path),
        **counted,
        "data": section,
        "yaml": text,
        "notes": notes,
    }


def _written(path: str) -> str:
    """A path as a scenario in the working directory writes it, where it lies below that."""
    near = os.path.relpath(path)
    return os.path.normpath(path) if near.startswith("..") else near


def _keys(kind: str, path: str, edits: Iterable[str]) -> dict[str, str]:
    """Keys that are guessed, but for those that the user gives."""
    given = {edit.partition("=")[0] for edit in edits}
    return {key: value for key, value in guessed_keys(kind, path).items() if key not in given}


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
    scenario = read({"name": "described", "data": section}, tuple(f"data.{edit}" for edit in edits))
    return scenario, _read(scenario)


@locate_link_errors
def _read(scenario: Scenario) -> Any:
    return factory_of(scenario.spec.data)()


def _notes(section: dict[str, Any], edits: Iterable[str]) -> list[str]:
    """What was guessed, and where a scenario has to stand."""
    given = {edit.partition("=")[0] for edit in edits}
    notes = [
        f"{key}: {section[key]} is a guess by name"
        for key in ("target", "client")
        if key in section and key not in given
    ]
    if section["path"].startswith(("..", os.sep)):
        notes.append(
            f"a scenario elsewhere reads it with --data-root {os.path.dirname(os.path.abspath(section['path']))}"
        )
    return notes
