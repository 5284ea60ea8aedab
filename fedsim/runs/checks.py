"""What `fedsim verify` checks before a replay: record, files, logs and tables fit each other."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedsim.disk import files, tables
from fedsim.disk.tables import Record, read_table, reporting_table_errors
from fedsim.engine.run import COMPLETED
from fedsim.errors import CheckpointError, DirectoryError, PrivacyError, ScenarioError
from fedsim.report.results import rows_of
from fedsim.runs import directory
from fedsim.runs.commits import LOG
from fedsim.runs.comparison import columns_of
from fedsim.runs.differences import differences
from fedsim.runs.filenames import COMMITS, UPDATES, run_files_of
from fedsim.runs.record_form import malformed
from fedsim.runs.replay import RecordedSeed, recorded
from fedsim.runs.result import OPTIONAL_TABLES, TABLE_COLUMNS
from fedsim.runs.unfinished import axes_of, is_comparison
from fedsim.scenario.named_files import without_paths
from fedsim.scenario.reader import parse
from fedsim.study.conclusions import conclusions
from fedsim.study.summary import (
    NOT_FEDERATED,
    OWN,
    columns_of_clients,
    columns_of_fields,
    own_score,
    summarise,
)

ENDED = (*COMPLETED, "diverged", "stopped", "incomplete")
UNDER_WAY = ("running", "interrupted")
CLOUD_BYTES = ("cloud_bytes_up", "cloud_bytes_down")
CUMULATIVE = ("virtual_seconds", "bytes_up", "bytes_down", "epsilon", *CLOUD_BYTES)
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
      record: the run's record.
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
            )
    except DirectoryError as error:
        return [str(error)]

    problems = []
    for name, rows in computed.items():
        columns = columns_of(name, varied, tuned)
        with files.reporting_os_errors(path), contextlib.suppress(FileNotFoundError):
            text = (path / f"{name}.csv").read_text(encoding="utf-8")
            if text != tables.to_csv(rows, columns):
                problems.append(f"{name}.csv does not follow from summary.csv")
    return problems


# --------------------------------------------------------------------------------------- a run


def of_seeds(path: Path, record: dict[str, Any]) -> tuple[list[RecordedSeed], list[str]]:
    """Read logs and commits of every seed -> the seeds, and problems."""
    seeds = []
    problems = []
    for seed in record["scenario"]["seeds"]:
        try:
            seeds.append(recorded(path, record, seed))
        except CheckpointError as error:
            problems += str(error).splitlines()
        except (KeyError, TypeError) as error:
            problems.append(f"seed {seed}: {error!r}")
    return seeds, problems


def of_tables(path: Path, record: dict[str, Any], seeds: list[RecordedSeed]) -> list[str]:
    """Compare the CSV files with the logs, and the scenario file with the record."""
    problems = []
    for name, columns in TABLE_COLUMNS.items():
        rows = [row for seed in seeds for row in seed.tables.get(name, [])]
        if rows or name not in OPTIONAL_TABLES:
            problems += _difference_of_files(path / f"{name}.csv", tables.to_csv(rows, columns))
    return problems + _of_scenario_file(path, record)


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


def _of_scenario_file(path: Path, record: dict[str, Any]) -> list[str]:
    """Differences of the scenario file and the record."""
    name = directory.SCENARIO
    try:
        values = parse((path / name).read_text(encoding="utf-8"), name).values
    except (ScenarioError, UnicodeDecodeError) as error:
        return [f"{name}: {error}"]
    problems = []
    fields = differences(without_paths(values), without_paths(record["scenario"]))
    for field, in_file, in_record in fields:
        problems.append(f"{name}: {field}: {in_file}, in the record {in_record}")
    return problems


def of_rows(seed: RecordedSeed, record: dict[str, Any]) -> list[str]:
    """Check that no row is missing, sums never fall, and the summary follows from the rows."""
    name = f"seed {seed.who['seed']}"
    evaluate = record["scenario"]["evaluate"]
    try:
        problem = _missing_rounds(seed, evaluate["every"])
        if problem:
            return [f"{name}: {problem}"]
        problems = [f"{name}: {fall}" for fall in _falls(seed.rows)]
        line = summarise(
            seed.rows,
            evaluate["metric"],
            evaluate["last"],
            evaluate.get("target"),
            seed.end["status"],
            seed.end["reason"],
            seed.tables["summary"][0].get(NOT_FEDERATED, ""),
        )
        clients = seed.tables["clients"][0]
        line |= columns_of_clients(clients, seed.end["status"], evaluate["metric"])
        if OWN in seed.tables["summary"][0]:  # its clients have test samples of their own
            metric = line["metric"] or evaluate["metric"]
            line |= own_score(clients, seed.end["status"], metric)
        line |= columns_of_fields(seed.tables, record["scenario"])
        if json.dumps([{**seed.who, **line}]) != json.dumps(seed.tables.get("summary")):
            problems.append(f"{name}: summary.csv does not follow from rounds.csv")
        return problems
    except PrivacyError as error:
        return [f"{name}: {error.where} {error}"]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        return [f"{name}: the log is damaged: {error!r}"]


def _missing_rounds(seed: RecordedSeed, every: int) -> str:
    """What is wrong with the rounds that have rows; empty where nothing is."""
    last = seed.end["round"]
    # They are counted before a list of them is made: the record may be a stranger's.
    count = last // every + 1
    if last % every > 0:
        count += 1
    if count == len(seed.rows):
        expected = sorted({*range(0, last + 1, every), last})
        if [row["round"] for row in seed.rows] == expected:
            return ""
    return f"rounds.csv does not have the rounds 0, {every}, ... {last}"


def _falls(rows: list[Record]) -> Iterator[str]:
    """Cumulative columns with a value that is smaller than the one before."""
    for column in CUMULATIVE:
        values = [row[column] for row in rows if row.get(column) is not None]
        for index in range(1, len(values)):
            if values[index] < values[index - 1]:
                yield f"{column} falls in round {rows[index]['round']}"
                break


def of_ends(record: dict[str, Any], seeds: list[RecordedSeed]) -> list[str]:
    """Compare how the runs ended with the record; completed runs must have all rounds."""
    problems = []
    status = "done"
    reasons = {}
    for seed in seeds:
        if seed.end["status"] != "done":
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
