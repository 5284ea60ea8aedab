"""What `fedsim verify` checks before it replays: a run directory's record, files, logs and tables against each other."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedsim.disk import files, tables
from fedsim.disk.tables import Record, as_written, read_table
from fedsim.engine.run import COMPLETED
from fedsim.errors import CheckpointError, DirectoryError, ScenarioError
from fedsim.report.results import rows_of
from fedsim.runs import directory
from fedsim.runs.commits import LOG
from fedsim.runs.comparison import ordered
from fedsim.runs.filenames import COMMITS, layout_of
from fedsim.runs.journal import differences
from fedsim.runs.record_form import malformed
from fedsim.runs.replay import Recorded, recorded
from fedsim.runs.result import OPTIONAL, ORDER
from fedsim.runs.unfinished import axes_of
from fedsim.scenario.named_files import without_paths
from fedsim.scenario.reader import parse
from fedsim.study.conclusions import conclusions
from fedsim.study.summary import fairness, summarise

ENDED = (*COMPLETED, "diverged", "stopped", "incomplete")
UNDER_WAY = ("running", "interrupted")
LISTED = 5  # files that are missing, by name
CUMULATIVE = ("virtual_seconds", "bytes_up", "bytes_down", "epsilon")


def of_record(path: Path, record: dict[str, Any] | None) -> list[str]:
    """Problems of the record itself."""
    # reading text takes a carriage return for a line feed, of which the record's own hash knows nothing
    if record is None or b"\r" in (path / directory.RECORD).read_bytes():
        return [f"{directory.RECORD} is damaged: its SHA-256 does not fit"]
    if record.get("status") not in ENDED:
        return [
            f"{directory.RECORD} says that the run is {str(record.get('status'))[:40]!a}, which no run ever is"
        ]
    return [
        f"{directory.RECORD} has no {name} as a run writes it"
        for name in malformed(record, "reasons", "files")
    ]


def of_files(record: dict[str, Any], hashes: dict[str, str]) -> list[str]:
    """Files that are missing, that are others, or that every run writes and the record does not name."""
    listed = record["files"]
    missing = [f"{name} is missing" for name in listed if name not in hashes]
    if len(missing) > LISTED:
        missing[LISTED:] = [f"and {len(missing) - LISTED} more of {len(listed)} are missing"]
    changed = [
        f"{name} is not what was written"
        for name in listed
        if name in hashes and hashes[name] != listed[name]
    ]
    needed = {
        *_written(record),
        *(name for name in hashes if name.startswith(f"{COMMITS}/")),
    }  # all that is read
    return [
        *missing,
        *changed,
        *(f"{name} is not in the record" for name in sorted(needed.difference(listed))),
    ]


def beside(record: dict[str, Any], hashes: dict[str, str]) -> str:
    """In words: how many files there are, and which others lie beside them."""
    others = [name for name in hashes if name not in record["files"]]
    more = (
        f"; not of this run: {', '.join(others[:5])}{' ...' if len(others) > 5 else ''}"
        if others
        else ""
    )
    return f"{len(record['files'])}, as they were written{more}"


def _written(record: dict[str, Any]) -> list[str]:
    """Files that every run writes."""
    names = [f"{table}.csv" for table in ORDER if table not in OPTIONAL] + ["scenario.yaml"]
    if record.get("kind") == "compare":
        return [*names, "compare.csv"]
    layout = layout_of(Path(), record)
    for seed in record["scenario"]["seeds"]:
        names.append(str(layout.model(record["method"], seed)))
        names.append(str(layout.folder(record["method"], seed) / LOG))
    return names


def of_comparison(path: Path, record: dict[str, Any]) -> list[str]:
    """The tables of differences, ranks and profiles computed again from the scores in the tables beside them."""
    varied, tuned = axes_of(record)
    # columns that vary stay as they are written: 0 beside 0.2 is no 0.0
    summary, tuning, rounds = (
        read_table(path, name, text=varied) for name in ("summary", "tuning", "rounds")
    )
    if summary is None:
        return ["summary.csv is missing"]
    try:
        with as_written(path):
            settings = [] if tuning is None else rows_of(tuning)
            played = [] if rounds is None else rows_of(rounds)
            again = conclusions(
                rows_of(summary), settings, record["baseline"], record["score"], varied, played
            )
    except DirectoryError as error:
        return [str(error)]
    problems = []
    for name, rows in again.items():
        with files.naming(path), contextlib.suppress(FileNotFoundError):
            text = (path / f"{name}.csv").read_text(encoding="utf-8")
            if text != tables.to_csv(rows, ordered(name, varied, tuned)):
                problems.append(f"{name}.csv does not follow from summary.csv")
    return problems


def of_seeds(path: Path, record: dict[str, Any]) -> tuple[list[Recorded], list[str]]:
    """Logs and commits of every seed, and their problems."""
    seeds, problems = [], []
    for seed in record["scenario"]["seeds"]:
        try:
            seeds.append(recorded(path, record, seed))
        except (CheckpointError, KeyError, TypeError) as error:
            problems += (
                str(error).splitlines()
                if isinstance(error, CheckpointError)
                else [f"seed {seed}: {error!r}"]
            )
    return seeds, problems


def of_tables(path: Path, record: dict[str, Any], seeds: list[Recorded]) -> list[str]:
    """The CSV files made again from the logs, and the scenario file against the record."""
    problems = []
    for table, order in ORDER.items():
        rows = [row for seed in seeds for row in seed.tables.get(table, [])]
        if not rows and table in OPTIONAL:
            continue
        again = tables.to_csv(rows, order).encode()
        with files.naming(path):
            written = (path / f"{table}.csv").read_bytes()
        if written != again:
            lines = zip(written.splitlines(), again.splitlines(), strict=False)
            line = next((n for n, (one, two) in enumerate(lines, 1) if one != two), None)
            problems.append(
                f"{table}.csv is not what the logs say{f', from line {line}' if line else ''}"
            )
    try:
        values = parse((path / "scenario.yaml").read_text(encoding="utf-8"), "scenario.yaml").values
    except (ScenarioError, UnicodeDecodeError) as error:
        return [*problems, f"scenario.yaml: {error}"]
    others = differences(without_paths(values), without_paths(record["scenario"]))
    return problems + [
        f"scenario.yaml: {field}: {one}, in the record {two}" for field, one, two in others
    ]


def of_rows(seed: Recorded, record: dict[str, Any]) -> list[str]:
    """Rows without a gap, sums that never fall, and the summary that follows from them."""
    evaluate, end, rows = record["scenario"]["evaluate"], seed.end, seed.rows
    name, every = f"seed {seed.who['seed']}", evaluate["every"]
    try:
        whole = (
            end["round"] // every + 1 + (end["round"] % every > 0)
        )  # counted before they are made
        expected = (
            sorted({*range(0, end["round"] + 1, every), end["round"]}) if whole == len(rows) else []
        )
        if [row["round"] for row in rows] != expected:
            return [f"{name}: rounds.csv has not the rounds 0, {every}, ... {end['round']}"]
        problems = list(_falling(rows, name))
        scoring = evaluate["metric"], evaluate["last"], evaluate.get("target")
        line = summarise(rows, *scoring, end["status"], end["reason"])
        line |= fairness(seed.tables["clients"][0], end["status"])
        if json.dumps([{**seed.who, **line}]) != json.dumps(seed.tables.get("summary")):
            problems.append(f"{name}: summary.csv does not follow from rounds.csv")
        return problems
    except (KeyError, TypeError, IndexError) as error:
        return [f"{name}: the log is damaged: {error!r}"]


def _falling(rows: list[Record], seed: str) -> Iterator[str]:
    for column in CUMULATIVE:
        values = [row[column] for row in rows if column in row]
        fall = next((n for n in range(1, len(values)) if values[n] < values[n - 1]), None)
        if fall is not None:
            yield f"{seed}: {column} falls in round {rows[fall]['round']}"


def of_ends(record: dict[str, Any], seeds: list[Recorded]) -> list[str]:
    """Status and reasons of the record against the last commits; a run that went to its end has all its rounds."""
    early = [seed for seed in seeds if seed.end["status"] != "done"]
    reasons = {str(seed.who["seed"]): seed.end["reason"] for seed in early}
    problems = []
    if record["reasons"] != reasons or record["status"] != (
        early[-1].end["status"] if early else "done"
    ):
        problems.append(f"{directory.RECORD} says of the end what the last commits do not")
    rounds = record["scenario"]["rounds"]
    short = [
        seed for seed in seeds if seed.end["status"] in COMPLETED and seed.end["round"] != rounds
    ]
    return problems + [
        f"seed {seed.who['seed']}: ends in round {seed.end['round']} of {rounds}" for seed in short
    ]
