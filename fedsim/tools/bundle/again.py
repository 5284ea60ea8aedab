"""`fedsim check --against`: run recorded runs again, or take others, and compare the two.

On the same kind of machine with the same versions all bits are equal, or something is wrong.
Elsewhere scores differ a little; the differences of paired seeds are tested.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.disk import files
from fedsim.disk.tables import read_table, reporting_table_errors
from fedsim.errors import CheckpointError, DataError, DirectoryError, ScenarioError
from fedsim.machine import fix_threads
from fedsim.report.results import rows_of
from fedsim.runs import checks, directory
from fedsim.runs.compare import compare
from fedsim.runs.differences import differences
from fedsim.runs.ended import ended_run
from fedsim.runs.given import NOTHING_GIVEN
from fedsim.runs.go_on import Point, go_on
from fedsim.runs.run import Options, run_from
from fedsim.runs.unfinished import is_comparison
from fedsim.runs.verify import Missing, Request, read_again
from fedsim.scenario import Scenario
from fedsim.scenario.named_files import without_hashed_paths
from fedsim.study.words import count
from fedsim.tools.bundle.repetition import Row, repetition
from fedsim.tools.bundle.unpack import Opened

# Files that are equal wherever all bits are; `timing.csv` and pages have dates and seconds.
EXACT = re.compile(r"(?!timing\.csv)[^/]+\.(csv|safetensors)")
MAX_LISTED = 5  # files, or fields, by name

# What a repetition may come to.
BYTES = "byte-equal"
SCORES = "the same scores"
APART = "not told apart"
DIFFERS = "differs"
OPEN = "not decided"


class Again(NamedTuple):
    """A recorded run or comparison next to a repetition.

    Attributes:
      name: its name.
      verdict: `BYTES`, `SCORES`, `APART`, `DIFFERS` or `OPEN`.
      lines: why.
      rows: of what was tested, where bits differ.
    """

    name: str
    verdict: str
    lines: list[str]
    rows: list[Row]

    def plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**self._asdict(), "rows": [row._asdict() for row in self.rows]}


class Repeating(NamedTuple):
    """How runs are repeated.

    Attributes:
      folder: where the repetitions are written, each in a folder of its name.
      data_roots: folders that may hold data, besides the working directory and the bundle.
      device: the devices to compute on.
      ask: whether to stop.
      say: called with a line when a run begins.
      trust_data: whether HDF5 files and workbooks in the bundle are read.
    """

    folder: Path
    data_roots: tuple[str, ...]
    device: str | None
    ask: Callable[[], bool]
    say: Callable[[str], None]
    trust_data: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Options of `fedsim.run` and `fedsim.compare`: nothing is shown or drawn."""
        return {"device": self.device, "ask": self.ask, "progress": False, "pictures": False}


def repeated(opened: Opened, repeating: Repeating) -> Iterator[Again]:
    """Run everything in a bundle again, in turn, and compare.

    A run that cannot be repeated here, for want of data, code or its original, is `OPEN`.
    """
    records = {name: directory.sound_record(path) for name, path in opened.runs.items()}
    for name in sorted(records, key=lambda name: "fork" in records[name]):  # forks come last
        record = records[name]
        try:
            missing = _repeat(opened, name, records, repeating)
        except (ScenarioError, DataError) as error:
            missing = str(error).splitlines()
        if missing:
            yield Again(name, OPEN, missing, [])
        else:
            yield against(name, opened.runs[name], record, repeating.folder / name)


def _repeat(
    opened: Opened, name: str, records: Mapping[str, dict[str, Any]], repeating: Repeating
) -> list[str]:
    """Run one of the runs of a bundle again -> what is missing for that, a line each.

    Raises:
      ScenarioError: where its scenario cannot be run here.
      DataError: where its samples cannot.
    """
    record = records[name]
    if record["status"] in checks.UNDER_WAY:
        return [f"the run has not ended (its status is {record['status']})"]
    roots = (*map(str, opened.data_roots), *repeating.data_roots)
    request = Request(
        path=opened.runs[name],
        given=NOTHING_GIVEN,
        data_roots=roots,
        device=repeating.device,
        whole=False,
        trust_data=repeating.trust_data,
    )
    scenario, problems = read_again(request, record)
    if scenario is None:
        return problems.lines if isinstance(problems, Missing) else problems
    original = _original_of(record, records) if "fork" in record else None
    if "fork" in record and original is None:
        return ["it is a fork, and its original is not in the bundle; bundle both"]

    repeating.say(f"{name}: running it again, {count(len(scenario.spec.seeds), 'seed')}")
    out = repeating.folder / name
    if is_comparison(record):
        _compare_again(scenario, record, out, repeating)
    elif original is not None:
        before = ended_run(repeating.folder / original, repeating.device, roots, "fork", "fork")
        point = Point(record["fork"]["round"], tuple(record["fork"].get("fresh", ())))
        go_on(before, scenario, point, out, _options(record, repeating), progress=False)
    else:
        run_from(scenario, out, _options(record, repeating), progress=False)
    return []


def _compare_again(
    scenario: Scenario, record: dict[str, Any], out: Path, repeating: Repeating
) -> None:
    """Run a comparison again, with the threads that it had."""
    if scenario.spec.numerics.threads == "auto":
        fix_threads(record["environment"].get("threads"))
    compare(scenario, out=out, **repeating.options)


def _original_of(record: dict[str, Any], records: Mapping[str, dict[str, Any]]) -> str | None:
    """The name of the run that a fork goes on from; None where it is not in the bundle."""
    for name, other in records.items():
        is_same = other["hashes"]["scenario"] == record["fork"]["scenario"]
        if is_same and "fork" not in other and not is_comparison(other):
            return name
    return None


def _options(record: dict[str, Any], repeating: Repeating) -> Options:
    """How a run is repeated."""
    return Options(
        started=time.monotonic(),
        given=NOTHING_GIVEN,
        device=repeating.device,
        ask=repeating.ask,
        threads=record["environment"].get("threads"),
    )


# --------------------------------------------------------------------------- comparing the two


def against(name: str, path: Path, record: dict[str, Any], other: Path) -> Again:
    """Compare a recorded run or comparison with a repetition.

    Args:
      name: its name.
      path: its directory.
      record: its record.
      other: the directory of the repetition.

    Raises:
      DirectoryError: where there is none, or it has not ended.
    """
    repetition_record = directory.sound_record(other)
    if repetition_record["status"] in checks.UNDER_WAY:
        raise DirectoryError(f"{other}: has not ended; continue it with --resume first")
    fields = differences(_terms(record), _terms(repetition_record))
    if fields:
        lines = [f"{field}: {old}, here {new}" for field, old, new in fields[:MAX_LISTED]]
        return Again(name, DIFFERS, ["is another run:", *lines], [])

    changed = _changed_files(path, record)
    if changed:
        lines = [f"{file} was changed after it was written" for file in changed[:MAX_LISTED]]
        return Again(name, DIFFERS, lines, [])
    unequal = _unequal_files(record, repetition_record)
    if not unequal:
        return Again(name, BYTES, [f"{len(_files(record))} tables and models"], [])

    elsewhere = _environment(record, repetition_record)
    listed = ", ".join(unequal[:MAX_LISTED])
    if not elsewhere:
        text = f"in the same environment {len(unequal)} files have other bytes: {listed}"
        return Again(name, DIFFERS, [text], [])
    return _tested(name, (path, record), (other, repetition_record), elsewhere)


def _terms(record: dict[str, Any]) -> dict[str, Any]:
    """What two runs must have in common for their seeds to be pairs, on any machine."""
    scenario = without_hashed_paths(record["scenario"])
    scenario = {key: value for key, value in scenario.items() if key != "checkpoint"}
    entries = ("method", "baseline", "score", "cells", "supplied", "own_links", "fork")
    hashes = {key: record["hashes"].get(key) for key in ("data", "partition")}
    return {
        "kind": record.get("kind", "run"),
        "scenario": scenario,
        "hashes": hashes,
        **{entry: record.get(entry) for entry in entries},
    }


def _files(record: dict[str, Any]) -> dict[str, str]:
    """The hashes of tables and models in a record, by name."""
    files_of_record = record.get("files", {})
    return {name: sha256 for name, sha256 in files_of_record.items() if EXACT.fullmatch(name)}


def _changed_files(path: Path, record: dict[str, Any]) -> list[str]:
    """The tables and models that are there and are not those of the record."""
    changed = []
    for name, sha256 in _files(record).items():
        file = path / name
        if file.is_file() and files.sha256(file) != sha256:
            changed.append(name)
    return changed


def _unequal_files(record: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The tables and models that are not byte-equal, by the hashes in two records."""
    before = _files(record)
    after = _files(other)
    return [name for name in before | after if before.get(name) != after.get(name)]


def _environment(record: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """How the environments of two runs differ, where that may change bits."""
    after = json.loads(json.dumps(other["environment"]))
    fields = differences(record["environment"], after)
    return [f"{field}: {old}, here {new}" for field, old, new in fields]


def _tested(
    name: str,
    recorded: tuple[Path, dict[str, Any]],
    repetition_: tuple[Path, dict[str, Any]],
    elsewhere: list[str],
) -> Again:
    """The verdict about two runs in different environments, from their scores."""
    score = recorded[1].get("score", "final")
    before = _summary(recorded[0])
    after = _summary(repetition_[0])
    if _keys(before) != _keys(after):
        return Again(name, DIFFERS, ["other methods, variations or seeds have scores"], [])
    rows = repetition(before, after, score)
    lines = [f"another environment ({', '.join(elsewhere)})"]
    different = [row for row in rows if row.differs]
    if different:
        text = f"{len(different)} of {len(rows)} scores differ significantly, after Holm"
        return Again(name, DIFFERS, [*lines, text], rows)
    if all(row.same for row in rows):
        return Again(name, SCORES, [*lines, "every score is the recorded one to 1e-6"], rows)
    if not all(row.testable for row in rows):
        seeds = min(row.seeds for row in rows)
        text = f"{seeds} seeds are too few for a difference to be significant"
        return Again(name, OPEN, [*lines, text], rows)
    text = "no score differs significantly, after Holm"
    return Again(name, APART, [*lines, text], rows)


def _summary(path: Path) -> list[dict[str, Any]]:
    """The rows of `summary.csv`."""
    table = read_table(path, "summary")
    if table is None:
        raise DirectoryError(f"{path}: has no summary.csv")
    with reporting_table_errors(path):
        return rows_of(table)


def _keys(rows: list[dict[str, Any]]) -> set[tuple[str, str, Any]]:
    """Method, variation and seed of the rows."""
    return {(row["method"], str(row.get("variant") or ""), row["seed"]) for row in rows}


def run_like(opened: Opened, path: Path) -> str:
    """The name of the run of a bundle that a run directory repeats.

    Raises:
      CheckpointError: where none has its scenario.
    """
    record = directory.sound_record(path)
    for name, run in opened.runs.items():
        other = directory.sound_record(run)
        if not differences(_terms(other)["scenario"], _terms(record)["scenario"]):
            return name
    if len(opened.runs) == 1:
        return next(iter(opened.runs))
    known = ", ".join(opened.runs)
    raise CheckpointError(f"{path}: none of the runs there has its scenario: {known}")
