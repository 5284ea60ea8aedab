"""`fedsim check --against`: run recorded runs again, or take others, and compare the two.

On the same kind of machine with the same versions all bits are equal, or something is wrong.
Elsewhere scores differ a little; the differences of paired seeds are tested.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.disk import files
from fedsim.disk.tables import Record, read_table, reporting_table_errors
from fedsim.errors import CheckpointError, DataError, DirectoryError, ScenarioError
from fedsim.machine import fix_threads
from fedsim.report.results import rows_of
from fedsim.runs import directory
from fedsim.runs.compare import compare
from fedsim.runs.diff import record_differences
from fedsim.runs.ended import UNDER_WAY, ended_record, ended_run, read_again
from fedsim.runs.given import NOTHING_GIVEN
from fedsim.runs.go_on import Point, go_on
from fedsim.runs.run import Options, run_from
from fedsim.runs.unfinished import is_comparison
from fedsim.scenario import Scenario
from fedsim.study.row_differences import Field
from fedsim.study.words import count
from fedsim.tools.bundle.repetition import repetition
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
    rows: Sequence[Record] = ()


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
            _repeat(opened, name, records, repeating)
        except (CheckpointError, ScenarioError, DataError) as error:
            yield Again(name, OPEN, str(error).splitlines())
        else:
            yield against(name, opened.runs[name], record, repeating.folder / name)


def _repeat(
    opened: Opened, name: str, records: Mapping[str, dict[str, Any]], repeating: Repeating
) -> None:
    """Run one of the runs of a bundle again.

    Raises:
      CheckpointError: where something is missing for that.
      ScenarioError: where its scenario cannot be run here.
      DataError: where its samples cannot.
    """
    record = records[name]
    if record["status"] in UNDER_WAY:
        raise CheckpointError(f"the run has not ended (its status is {record['status']})")
    roots = (*map(str, opened.data_roots), *repeating.data_roots)
    path = opened.runs[name]
    trust = repeating.trust_data
    scenario = read_again(path, record, NOTHING_GIVEN, roots, "verify", trust)
    original = _original_of(record, records) if "fork" in record else None
    if "fork" in record and original is None:
        raise CheckpointError("it is a fork, and its original is not in the bundle; bundle both")

    repeating.say(f"{name}: running it again, {count(len(scenario.spec.seeds), 'seed')}")
    out = repeating.folder / name
    if is_comparison(record):
        _compare_again(scenario, record, out, repeating)
        return
    options = Options(
        started=time.monotonic(),
        given=NOTHING_GIVEN,
        device=repeating.device,
        ask=repeating.ask,
        threads=record["environment"]["threads"],
    )
    if original is not None:
        before = ended_run(repeating.folder / original, repeating.device, roots, "fork", "fork")
        point = Point(record["fork"]["round"], tuple(record["fork"].get("fresh", ())))
        go_on(before, scenario, point, out, options, progress=False)
    else:
        run_from(scenario, out, options, progress=False)


def _compare_again(
    scenario: Scenario, record: dict[str, Any], out: Path, repeating: Repeating
) -> None:
    """Run a comparison again, with the threads that it had."""
    if scenario.spec.numerics.threads == "auto":
        fix_threads(record["environment"]["threads"])
    compare(scenario, out=out, **repeating.options)


def _original_of(record: dict[str, Any], records: Mapping[str, dict[str, Any]]) -> str | None:
    """The name of the run that a fork goes on from; None where it is not in the bundle."""
    for name, other in records.items():
        is_same = other["hashes"]["scenario"] == record["fork"]["scenario"]
        if is_same and "fork" not in other and not is_comparison(other):
            return name
    return None


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
    again = ended_record(other)
    groups = record_differences(record, again)
    fields = _of_another_run(groups)
    if fields:
        return Again(name, DIFFERS, ["is another run:", *fields[:MAX_LISTED]])
    changed = _changed_files(path, record)
    if changed:
        lines = [f"{file} was changed after it was written" for file in changed[:MAX_LISTED]]
        return Again(name, DIFFERS, lines)

    # By the hashes in both records: a bundle may lack files.
    hashes = _hashes(record)
    hashes_again = _hashes(again)
    unequal = [file for file in hashes | hashes_again if hashes.get(file) != hashes_again.get(file)]
    if not unequal:
        return Again(name, BYTES, [f"{len(hashes)} tables and models"])
    elsewhere = [_in_words(field) for field in groups["environment"]]
    if not elsewhere:
        listed = ", ".join(unequal[:MAX_LISTED])
        text = f"in the same environment {len(unequal)} files have other bytes: {listed}"
        return Again(name, DIFFERS, [text])
    found = _tested(name, _summary(path), _summary(other), record.get("score", "final"))
    return found._replace(lines=[f"another environment ({', '.join(elsewhere)})", *found.lines])


def _of_another_run(groups: Mapping[str, list[Field]]) -> list[str]:
    """The fields that two runs must have in common for their seeds to be pairs, on any machine."""
    lines = []
    for group in ("scenario", "numerics", "data", "own links"):
        for field in groups[group]:
            # Start models differ elsewhere, and so do hashes of scenarios that commit differently.
            is_compared = field.name.startswith(("data", "partition")) or group != "data"
            if is_compared and not field.name.startswith("checkpoint"):
                lines.append(f"{group}.{_in_words(field)}")
    return lines


def _in_words(field: Field) -> str:
    return f"{field.name}: {field.a}, here {field.b}"


def _hashes(record: dict[str, Any]) -> dict[str, str]:
    """The hashes of tables and models in a record, by name."""
    return {name: sha256 for name, sha256 in record["files"].items() if EXACT.fullmatch(name)}


def _changed_files(path: Path, record: dict[str, Any]) -> list[str]:
    """The tables and models that are there and are not those of the record."""
    changed = []
    for name, sha256 in _hashes(record).items():
        file = path / name
        if file.is_file() and files.sha256(file) != sha256:
            changed.append(name)
    return changed


def _tested(name: str, before: list[Record], after: list[Record], score: str) -> Again:
    """The verdict about two runs in different environments, from their scores."""
    if _keys(before) != _keys(after):
        return Again(name, DIFFERS, ["other methods, variations or seeds have scores"])
    rows = repetition(before, after, score)
    different = [row for row in rows if row["differs"]]
    if different:
        text = f"{len(different)} of {len(rows)} scores differ significantly, after Holm"
        return Again(name, DIFFERS, [text], rows)
    if all(row["same"] for row in rows):
        return Again(name, SCORES, ["every score is the recorded one to 1e-6"], rows)
    if not all(row["testable"] for row in rows):
        seeds = min(row["seeds"] for row in rows)
        text = f"{seeds} seeds are too few for a difference to be significant"
        return Again(name, OPEN, [text], rows)
    return Again(name, APART, ["no score differs significantly, after Holm"], rows)


def _summary(path: Path) -> list[Record]:
    """The rows of `summary.csv`."""
    table = read_table(path, "summary")
    if table is None:
        raise DirectoryError(f"{path}: has no summary.csv")
    with reporting_table_errors(path):
        return rows_of(table)


def _keys(rows: list[Record]) -> set[tuple[str, str, Any]]:
    """Method, variation and seed of the rows."""
    return {(row["method"], str(row.get("variant") or ""), row["seed"]) for row in rows}


def run_like(opened: Opened, path: Path) -> str:
    """The name of the run of a bundle that a run directory repeats.

    Raises:
      CheckpointError: where none has its scenario.
    """
    record = directory.sound_record(path)
    for name, run in opened.runs.items():
        groups = record_differences(directory.sound_record(run), record)
        if not _of_another_run({**groups, "data": [], "own links": []}):
            return name
    if len(opened.runs) == 1:
        return next(iter(opened.runs))
    known = ", ".join(opened.runs)
    raise CheckpointError(f"{path}: none of the runs there has its scenario: {known}")
