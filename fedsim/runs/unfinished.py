"""What an unfinished run or comparison has committed so far: its tables, and the mark on them.

All of it is read from the logs under `checkpoints/`; nothing is locked or changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedsim.disk import tables
from fedsim.disk.tables import Record
from fedsim.errors import CheckpointError, dotted
from fedsim.runs.commits import Committed, committed
from fedsim.runs.comparison import columns_of
from fedsim.runs.filenames import RunFiles, label_of, run_files_of
from fedsim.runs.result import OPTIONAL_TABLES, TABLE_COLUMNS
from fedsim.scenario import Scenario
from fedsim.scenario.sections import sections_within
from fedsim.study.conclusions import conclusions
from fedsim.study.summary import NOT_FEDERATED, summarise

UNFINISHED = "unfinished"  # a status in `summary.csv` of a comparison

# All tables but `summary` and `partition`, and those of them that only a run that has ended has.
TABLES = ("rounds", "timing", "clients", *OPTIONAL_TABLES)
FINAL_TABLES = ("clients", *OPTIONAL_TABLES)


class UnfinishedRun(NamedTuple):
    """A run of a run directory that is not complete, as far as it has come.

    Attributes:
      name: its name in `reasons` and `unfinished` of the record: the seed; of a comparison the
        configuration as well.
      who: the first columns of its rows.
      rounds: the rounds that it is to have.
      committed: what its journal holds; None before the first commit.
    """

    name: str
    who: Mapping[str, Any]
    seed: int
    rounds: int
    committed: Committed | None

    @property
    def ended(self) -> bool:
        """Whether this run has ended."""
        return self.committed is not None and self.committed.status != "running"

    @property
    def round(self) -> int:
        """The rounds that it has done."""
        return 0 if self.committed is None else self.committed.round

    def rows(self, table: str) -> list[Record]:
        """Its rows of a table."""
        return [] if self.committed is None else self.committed.tables.get(table, [])


def is_complete(record: Mapping[str, Any]) -> bool:
    """Whether a run directory is complete, by its record."""
    return "files" in record


def is_comparison(record: Mapping[str, Any]) -> bool:
    """Whether a run directory holds a comparison, by its record."""
    return record.get("kind") == "compare"


def runs_of(path: Path, record: Mapping[str, Any]) -> list[UnfinishedRun]:
    """Every run of a run directory, in the order of its tables."""
    run_files = run_files_of(path, record)
    if not is_comparison(record):
        return _runs_of_configuration(run_files, record, {"method": record["method"]})
    runs = []
    for who in record["cells"]:
        runs += _runs_of_configuration(run_files, record, who)
    return sorted(runs, key=lambda run: (run.who["method"], run.who.get("variant", "")))


def _runs_of_configuration(
    run_files: RunFiles, record: Mapping[str, Any], who: Mapping[str, Any]
) -> list[UnfinishedRun]:
    label = label_of(who)
    planned = record.get("planned") or {}
    plan = planned.get(label) or record["scenario"]
    rounds = plan["rounds"]
    runs = []
    for seed in plan["seeds"]:
        name = f"{label}, seed {seed}" if is_comparison(record) else str(seed)
        progress = committed(run_files.folder(label, seed), rounds)
        runs.append(UnfinishedRun(name=name, who=who, seed=seed, rounds=rounds, committed=progress))
    return runs


def demand_reachable(where: Path, scenario: Scenario, runs: Sequence[UnfinishedRun]) -> None:
    """Refuse to make a run shorter than its last commit, or than a schedule of rounds in it."""
    rounds = scenario.spec.rounds
    over = "start over with --force or --out"
    lines = []
    for run in runs:
        if run.round > rounds:
            name = f"seed {run.name}" if run.name.isdigit() else run.name
            reason = f"its last commit is of round {run.round}, but rounds is {rounds}"
            lines.append(f"{where}: {name}: {reason}; write rounds={run.round} or more, or {over}")
    for path, section in sections_within(scenario.spec):
        counts_steps = path == ("client", "lr") and scenario.spec.client.lr_per == "step"
        if getattr(section, "family", "") == "schedule" and not counts_steps:
            reason = f"{section.kind} counts rounds, and was written for more of them"
            lines.append(f"{where}: scenario.{dotted(path)}: {reason}; {over}")
    if lines:
        raise CheckpointError("\n".join(lines))


def marked(record: Mapping[str, Any], runs: Sequence[UnfinishedRun]) -> dict[str, Any]:
    """The record with an entry `unfinished`: the mark, and rounds done and planned of every run."""
    progress = {run.name: [run.round, run.rounds] for run in runs}
    rest = {name: value for name, value in record.items() if name != "files"}
    return {**rest, "unfinished": {"mark": mark_of_runs(runs), "runs": progress}}


def mark_of_runs(runs: Sequence[UnfinishedRun]) -> str:
    """How far runs have come, in words: `unfinished: 40 of 200 rounds`."""
    planned = max((run.rounds for run in runs), default=0)
    least = min((run.round for run in runs), default=0)
    most = max((run.round for run in runs), default=0)
    done = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    text = f"unfinished: {done} of {planned:,} rounds"
    if len(runs) > 1:
        ended = sum(run.ended for run in runs)
        text += f", {ended:,} of {len(runs):,} runs ended"
    return text


# ---------------------------------------------------------------------------------- the tables


def records_so_far(
    record: Mapping[str, Any], runs: Sequence[UnfinishedRun]
) -> dict[str, list[Record]]:
    """The rows of runs by table, as far as they have come.

    `summary` tells of each run whether it has ended. The differences of a comparison are over the
    runs that have ended. Where something is tuned there are none, and `compare` has no rows: the
    setting that a method is reported with is chosen when all runs have ended.
    """
    records: dict[str, list[Record]] = {name: [] for name in TABLE_COLUMNS}
    for run in runs:
        for name in TABLES:
            if run.ended or name not in FINAL_TABLES:
                records[name] += run.rows(name)
        records["summary"] += run.rows("summary") if run.ended else _summary_so_far(record, run)

    # Methods share the partition of a variation and a seed.
    partitioned: set[tuple[str, int]] = set()
    outside = record.get(NOT_FEDERATED, {})
    for run in sorted(runs, key=lambda run: run.who["method"] in outside):
        key = (run.who.get("variant", ""), run.seed)
        if run.ended and key not in partitioned:
            partitioned.add(key)
            records["partition"] += _partition(record, run)

    records = {name: rows for name, rows in records.items() if rows or name not in OPTIONAL_TABLES}
    if is_comparison(record):
        records |= _conclusions_so_far(record, records)
    return records


def _conclusions_so_far(
    record: Mapping[str, Any], records: Mapping[str, list[Record]]
) -> dict[str, list[Record]]:
    """The tables that follow from the scores of runs that have ended; `compare` is always there."""
    varied, tuned = axes_of(record)
    if tuned:
        return {"compare": []}
    concluded = conclusions(
        summary=[row for row in records["summary"] if row.get("status") != UNFINISHED],
        tuning=[],
        baseline=record["baseline"],
        score=record["score"],
        varied=varied,
        rounds=records["rounds"],
        partition=frames_of(record, records).get("partition"),
    )
    return {name: rows for name, rows in concluded.items() if rows or name == "compare"}


def _summary_so_far(record: Mapping[str, Any], run: UnfinishedRun) -> list[Record]:
    """The row of `summary.csv` of a run that has not ended; none before its first commit."""
    rows = run.rows("rounds")
    if not rows:
        return []
    evaluate = record["scenario"]["evaluate"]
    line = summarise(
        rows,
        evaluate["metric"],
        evaluate["last"],
        evaluate.get("target"),
        status="running",
        reason=f"unfinished: round {run.round} of {run.rounds}",
        not_federated=record.get(NOT_FEDERATED, {}).get(run.who["method"], ""),
    )
    row = {**run.who, "seed": run.seed, **line}
    if is_comparison(record):
        row["status"] = UNFINISHED
    return [row]


def _partition(record: Mapping[str, Any], run: UnfinishedRun) -> list[Record]:
    """The rows of `partition.csv`, which the methods of a comparison share."""
    if not is_comparison(record):
        return run.rows("partition")
    shared = {name: value for name, value in run.who.items() if name != "method"}
    return [{**shared, **row} for row in run.rows("partition")]


def axes_of(record: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The paths of a comparison that vary, and those that are tuned, of all or of some methods."""
    cells = record.get("cells") or []

    # Columns: method, variant, what varies, tuned, what is tuned. Cells of methods that are not
    # tuned lack the last ones.
    columns = list(dict.fromkeys(name for cell in cells for name in cell))
    end = columns.index("tuned") if "tuned" in columns else len(columns)
    varied = columns[2:end] if "variant" in columns else []
    return varied, columns[end + 1 :]


def columns_in(record: Mapping[str, Any], name: str) -> Sequence[str]:
    """The columns of a table in order."""
    if is_comparison(record):
        return columns_of(name, *axes_of(record))
    return TABLE_COLUMNS[name]


def csv_of(
    record: Mapping[str, Any], records: Mapping[str, list[Record]]
) -> Iterator[tuple[str, str]]:
    """Tables as files: name and text."""
    for name, rows in records.items():
        yield f"{name}.csv", tables.to_csv(rows, columns_in(record, name))


def frames_of(
    record: Mapping[str, Any], records: Mapping[str, list[Record]]
) -> dict[str, pd.DataFrame]:
    """Tables as frames by name."""
    return {name: tables.frame(rows, columns_in(record, name)) for name, rows in records.items()}


def by_setting(
    record: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]
) -> Mapping[str, pd.DataFrame]:
    """Frames for pictures, in which every setting is a method while none has been chosen."""
    _, tuned = axes_of(record)
    if is_complete(record) or not tuned:
        return frames
    renamed = {}
    for name, frame in frames.items():
        has_settings = {"method", "tuned"} <= {*frame}
        renamed[name] = _with_setting_in_method(frame) if has_settings else frame
    return renamed


def _with_setting_in_method(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows whose method names the setting; a method that is not tuned stays as it is."""
    labels = []
    settings = frame["tuned"].fillna("").astype(str)
    for method, setting in zip(frame["method"], settings, strict=True):
        labels.append(f"{method} {setting}".rstrip())
    return frame.assign(method=labels).drop(columns="tuned")
