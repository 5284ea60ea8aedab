"""What `fedsim verify` checks before a replay: record, files, logs and tables fit each other."""

import contextlib
from pathlib import Path
from typing import Any

from fedsim.disk import files, tables
from fedsim.disk.tables import read_table, reporting_table_errors
from fedsim.engine.run import COMPLETED, WITH_RESULT
from fedsim.errors import DirectoryError
from fedsim.report.results import rows_of
from fedsim.runs import directory
from fedsim.runs.commits import LOG
from fedsim.runs.comparison import columns_of
from fedsim.runs.differences import differences
from fedsim.runs.ended import scenario_in
from fedsim.runs.filenames import COMMITS, UPDATES, run_files_of
from fedsim.runs.record_form import malformed
from fedsim.runs.replay import RecordedSeed
from fedsim.runs.result import OPTIONAL_TABLES, TABLE_COLUMNS
from fedsim.runs.unfinished import axes_of, is_comparison
from fedsim.scenario.named_files import without_paths
from fedsim.study.conclusions import conclusions

ENDED = (*COMPLETED, *WITH_RESULT, "diverged", "stopped", "incomplete")
MAX_LISTED = 5  # files that are missing, or not part of the run, by name


# ------------------------------------------------------------------------- the record and files


def of_record(path: Path, record: dict[str, Any] | None) -> list[str]:
    """Problems of the record itself."""
    # A carriage return would be read as a line feed, so the record's hash does not notice it.
    if record is None or b"\r" in (path / directory.RECORD).read_bytes():
        return [f"{directory.RECORD} is damaged: its SHA-256 does not match"]
    status = record.get("status")
    if status not in ENDED:
        return [f"{directory.RECORD} has the status {str(status)[:40]!a}, which no run has"]
    problems = []
    for name in malformed(record, "reasons", "files"):
        problems.append(f"{name} in {directory.RECORD} is missing, or not what a run writes there")
    return problems


def of_files(record: dict[str, Any], hashes: dict[str, str]) -> list[str]:
    """Files that are missing, that were changed, or that the record should name and does not.

    Args:
      hashes: SHA-256 of the files that are there.
    """
    listed = record["files"]
    missing = [f"{name} is missing" for name in listed if name not in hashes]
    if len(missing) > MAX_LISTED:
        more = len(missing) - MAX_LISTED
        missing[MAX_LISTED:] = [f"and {more} more of {len(listed)} are missing"]

    changed = []
    for name, sha256 in listed.items():
        if name in hashes and hashes[name] != sha256:
            changed.append(f"{name} was changed after it was written")

    # Everything that is read has to be listed.
    of_runs = [name for name in hashes if name.startswith((f"{COMMITS}/", f"{UPDATES}/"))]
    unlisted = {*_files_of_every_run(record), *of_runs}.difference(listed)
    return [*missing, *changed, *(f"{name} is not in the record" for name in sorted(unlisted))]


def summary_of_files(record: dict[str, Any], hashes: dict[str, str]) -> str:
    """In words: how many files there are, and which others the directory holds."""
    listed = record["files"]
    text = f"{len(listed)}, as they were written"
    others = [name for name in hashes if name not in listed]
    if others:
        text += f"; not part of this run: {', '.join(others[:MAX_LISTED])}"
        if len(others) > MAX_LISTED:
            text += " ..."
    return text


def _files_of_every_run(record: dict[str, Any]) -> list[str]:
    """Names of the files that every run writes."""
    names = [f"{table}.csv" for table in TABLE_COLUMNS if table not in OPTIONAL_TABLES]
    names.append(directory.SCENARIO)
    if is_comparison(record):
        return [*names, "compare.csv"]
    run_files = run_files_of(Path(), record)
    method = record["method"]
    for seed in record["scenario"]["seeds"]:
        names.append(str(run_files.model(method, seed)))
        names.append(str(run_files.folder(method, seed) / LOG))
    return names


# -------------------------------------------------------------------------------- a comparison


def of_comparison(path: Path, record: dict[str, Any]) -> list[str]:
    """Compute the conclusions of a comparison again from its scores -> tables that differ."""
    varied, tuned = axes_of(record)
    # Columns that vary stay text: 0 in a column with 0.2 must not become 0.0.
    summary = read_table(path, "summary", text=varied)
    tuning = read_table(path, "tuning", text=varied)
    rounds = read_table(path, "rounds", text=varied)
    partition = read_table(path, "partition", text=varied)
    if summary is None:
        return ["summary.csv is missing"]
    try:
        with reporting_table_errors(path):
            computed = conclusions(
                summary=rows_of(summary),
                tuning=[] if tuning is None else rows_of(tuning),
                baseline=record["baseline"],
                score=record["score"],
                varied=varied,
                rounds=[] if rounds is None else rows_of(rounds),
                partition=partition,
            )
    except DirectoryError as error:
        return [str(error)]

    # Without the counts of labels no method is seen to be at chance level.
    is_missing = partition is None and "partition.csv" in record["files"]
    aside = "; partition.csv is missing" if is_missing else ""
    problems = []
    for name, rows in computed.items():
        followed = tables.to_csv(rows, columns_of(name, varied, tuned))
        with files.reporting_os_errors(path), contextlib.suppress(FileNotFoundError):
            text = (path / f"{name}.csv").read_text(encoding="utf-8")
            if text != followed:
                problems.append(f"{name}.csv does not follow from summary.csv{aside}")
    return problems


# --------------------------------------------------------------------------------------- a run


def of_tables(path: Path, record: dict[str, Any], seeds: list[RecordedSeed]) -> list[str]:
    """Compare the CSV files with the logs, these with themselves, and the record with both."""
    problems = []
    for name, columns in TABLE_COLUMNS.items():
        rows = [row for seed in seeds for row in seed.tables.get(name, [])]
        if rows or name not in OPTIONAL_TABLES:
            problems += _difference_of_files(path / f"{name}.csv", tables.to_csv(rows, columns))
    fields = differences(without_paths(scenario_in(path)), without_paths(record["scenario"]))
    for field, in_file, in_record in fields:
        problems.append(f"{directory.SCENARIO}: {field}: {in_file}, in the record {in_record}")
    for seed in seeds:
        problems += [f"seed {seed.who['seed']}: {problem}" for problem in _of_rows(seed)]
    return problems + _of_ends(record, seeds)


def _difference_of_files(file: Path, text: str) -> list[str]:
    """Where a table differs from what the logs give."""
    expected = text.encode()
    with files.reporting_os_errors(file.parent):
        present = file.read_bytes()
    if present == expected:
        return []
    lines = zip(present.splitlines(), expected.splitlines(), strict=False)
    for number, (line, expected_line) in enumerate(lines, 1):
        if line != expected_line:
            return [f"{file.name} differs from the logs, from line {number} on"]
    return [f"{file.name} differs from the logs"]


def _of_rows(seed: RecordedSeed) -> list[str]:
    """Rows that are missing, also in rounds that are not replayed."""
    every = seed.record["scenario"]["evaluate"]["every"]
    last = seed.end["round"]
    try:
        # They are counted before a list of them is made: the record may be a stranger's.
        count = -(-last // every) + 1
        expected = [*range(0, last, every), last] if count == len(seed.rows) else []
        if [row["round"] for row in seed.rows] != expected:
            return [f"rounds.csv does not have the rounds 0, {every}, ... {last}"]
    except (KeyError, TypeError, ValueError) as error:
        return [f"the log is damaged: {error!r}"]
    return []


def _of_ends(record: dict[str, Any], seeds: list[RecordedSeed]) -> list[str]:
    """Compare how the runs ended with the record; completed runs must have all rounds."""
    problems = []
    status = "done"
    reasons = {}
    for seed in seeds:
        if seed.end["status"] not in WITH_RESULT:
            status = seed.end["status"]
            reasons[str(seed.who["seed"])] = seed.end["reason"]
    if record["reasons"] != reasons or record["status"] != status:
        problems.append(f"{directory.RECORD} and the last commits differ about how the run ended")

    rounds = record["scenario"]["rounds"]
    for seed in seeds:
        if seed.end["status"] in COMPLETED and seed.end["round"] != rounds:
            end = f"ends in round {seed.end['round']} of {rounds}"
            problems.append(f"seed {seed.who['seed']}: {end}")
    return problems
