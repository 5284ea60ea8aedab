"""Is a run what another one is? `fedsim verify --against`.

On the same kind of machine with the same versions all bits are equal, or something is wrong.
Elsewhere scores differ a little; the differences of paired seeds are tested.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.disk import files
from fedsim.disk.tables import Record, read_table, reporting_table_errors
from fedsim.errors import DirectoryError
from fedsim.report.results import rows_of
from fedsim.runs import directory
from fedsim.runs.diff import Difference, diff, record_differences
from fedsim.runs.ended import UNDER_WAY
from fedsim.study.repetition import repetition
from fedsim.study.row_differences import Field

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
      verdict: `BYTES`, `SCORES`, `APART`, `DIFFERS` or `OPEN`.
      rows: of what was tested, where bits differ.
      difference: everything that differs, where somebody has asked for it.
    """

    name: str
    verdict: str
    lines: list[str]
    rows: Sequence[Record] = ()
    difference: Difference | None = None

    def plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = self._replace(rows=list(self.rows))._asdict()
        if self.difference is not None:
            values["difference"] = self.difference.plain()
        return values


def two_runs(path: Path, other: Path) -> Again:
    """Compare a run directory with another one, and list everything that differs.

    Args:
      other: what it should be.
    """
    found = against(path.resolve().name, other, path)
    return found._replace(difference=diff(path, other))


def against(name: str, path: Path, other: Path) -> Again:
    """Compare a recorded run or comparison with a repetition."""
    record = directory.sound_record(path)
    again = directory.sound_record(other)
    groups = record_differences(record, again)
    fields = _of_another_run(groups)
    if fields:
        return Again(name, DIFFERS, ["is another run:", *fields[:MAX_LISTED]])
    for each, status in ((path, record["status"]), (other, again["status"])):
        if status in UNDER_WAY:
            return Again(name, OPEN, [f"{each} has not ended (its status is {status})"])
    changed = _changed_files(path, record)
    changed += [str(other / file) for file in _changed_files(other, again)]
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


def is_repetition(record: dict[str, Any], again: dict[str, Any]) -> bool:
    """Whether two records are of the same scenario."""
    groups = record_differences(record, again)
    return not _of_another_run({**groups, "data": [], "own kinds": []})


def _of_another_run(groups: Mapping[str, list[Field]]) -> list[str]:
    """The fields that two runs must have in common for their seeds to be pairs, on any machine."""
    lines = []
    for group in ("scenario", "numerics", "data", "own kinds"):
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
        return Again(name, DIFFERS, ["other methods, conditions or seeds have scores"])
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
    table = read_table(path, "summary")
    if table is None:
        raise DirectoryError(f"{path}: has no summary.csv")
    with reporting_table_errors(path):
        return rows_of(table)


def _keys(rows: list[Record]) -> set[tuple[str, str, Any]]:
    """Method, variation and seed of the rows."""
    return {(row["method"], str(row.get("variant") or ""), row["seed"]) for row in rows}
