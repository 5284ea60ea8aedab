"""What a run or a comparison that has not ended has committed so far: its tables, and the mark that says so.

All of it is read from the logs under `checkpoints/`; whoever reads claims nothing and changes nothing there.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedsim.disk import tables
from fedsim.disk.tables import Record
from fedsim.errors import CheckpointError, dotted
from fedsim.runs.commits import Committed, committed
from fedsim.runs.comparison import ordered
from fedsim.runs.filenames import label_of, layout_of
from fedsim.runs.result import OPTIONAL, ORDER
from fedsim.scenario import Scenario
from fedsim.scenario.sections import sections_within
from fedsim.study.conclusions import conclusions
from fedsim.study.summary import summarise

ENDS = (
    "summary",
    "clients",
    "partition",
    *OPTIONAL,
)  # tables whose rows are there only when a run has ended


class UnfinishedRun(NamedTuple):
    """One run under one seed, as far as it has come.

    Attributes:
      name: in `reasons` and `unfinished` of the record: the seed; of a comparison its configuration as well.
      who: first columns of its rows.
      seed: of the run.
      rounds: that it is to have.
      committed: what its journal holds; None before the first commit.
    """

    name: str
    who: Mapping[str, Any]
    seed: int
    rounds: int
    committed: Committed | None

    @property
    def ended(self) -> bool:
        """Whether it has come to its end."""
        return self.committed is not None and self.committed.status != "running"

    @property
    def round(self) -> int:
        """Rounds that it has done."""
        return self.committed.round if self.committed else 0

    def rows(self, table: str) -> list[Record]:
        """Its rows of a table."""
        return self.committed.tables.get(table, []) if self.committed else []


def ended(record: Mapping[str, Any]) -> bool:
    """Whether a run directory is complete, by its record."""
    return "files" in record


def runs_of(path: Path, record: Mapping[str, Any]) -> list[UnfinishedRun]:
    """Every run of a run directory, in the order of its tables.

    Raises:
      CheckpointError: for a log or a commit that is damaged.
    """
    scenario, compared = record["scenario"], record.get("kind") == "compare"
    planned, runs = record.get("planned") or {}, []
    layout = layout_of(path, record)
    for who in record["cells"] if compared else [{"method": record["method"]}]:
        label = label_of(who)
        plan = planned.get(label) or {"rounds": scenario["rounds"], "seeds": scenario["seeds"]}
        for seed in plan["seeds"]:
            name = f"{label}, seed {seed}" if compared else str(seed)
            done = committed(layout.folder(label, seed), plan["rounds"])
            runs.append(
                UnfinishedRun(name=name, who=who, seed=seed, rounds=plan["rounds"], committed=done)
            )
    return (
        sorted(runs, key=lambda run: (run.who["method"], run.who.get("variant", "")))
        if compared
        else runs
    )


def demand_reachable(where: Path, scenario: Scenario, runs: Sequence[UnfinishedRun]) -> None:
    """A run can be made shorter as long as it has not come further, and nothing in it follows a schedule of rounds.

    Args:
      where: the run directory.
      scenario: with its new number of rounds.
      runs: of it, as far as they have come.

    Raises:
      CheckpointError: naming the commit, or the schedule.
    """
    rounds = scenario.spec.rounds
    lines = [
        f"{where}: {'seed ' * run.name.isdigit()}{run.name}: its last commit is of round {run.round}, and rounds is {rounds}; "
        f"write rounds={run.round} or more, or start anew with --force or --out"
        for run in runs
        if run.round > rounds
    ]
    for path, section in sections_within(scenario.spec):
        per_step = path == ("client", "lr") and scenario.spec.client.lr_per == "step"
        if getattr(section, "family", "") == "schedule" and not per_step:
            reason = f"{section.kind} counts rounds, and was written for more of them"
            lines.append(
                f"{where}: scenario.{dotted(path)}: {reason}; start anew with --force or --out"
            )
    if lines:
        raise CheckpointError("\n".join(lines))


def marked(record: Mapping[str, Any], runs: Sequence[UnfinishedRun]) -> dict[str, Any]:
    """The record with its mark: `unfinished`, with rounds done and planned of every run, and a line of text."""
    left = {"mark": mark_of_runs(runs), "runs": {run.name: [run.round, run.rounds] for run in runs}}
    return {
        **{name: value for name, value in record.items() if name != "files"},
        "unfinished": left,
    }


def mark_of_runs(runs: Sequence[UnfinishedRun]) -> str:
    """How far runs have come, in words: `unfinished: 40 of 200 rounds`."""
    rounds = max((run.rounds for run in runs), default=0)
    least, most = (choose((run.round for run in runs), default=0) for choose in (min, max))
    done = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    several = (
        f", {sum(run.ended for run in runs):,} of {len(runs):,} runs ended" if len(runs) > 1 else ""
    )
    return f"unfinished: {done} of {rounds:,} rounds{several}"


def records_so_far(
    record: Mapping[str, Any], runs: Sequence[UnfinishedRun]
) -> dict[str, list[Record]]:
    """Rows by table, of runs as far as they have come; `summary` says of each whether it has ended.

    Differences of a comparison are over the runs that have ended. Where something is tuned there are none, and `compare`
    has no rows: which setting a method is reported with is decided when all of them have ended.
    """
    records: dict[str, list[Record]] = {name: [] for name in ORDER}
    partitioned: set[tuple[str, int]] = set()
    for run in runs:
        for name in ("rounds", "timing", "clients", *OPTIONAL):
            records[name] += run.rows(name) if run.ended or name not in ENDS else []
        records["summary"] += run.rows("summary") if run.ended else _so_far(record, run)
        where = (run.who.get("variant", ""), run.seed)
        if run.ended and where not in partitioned:
            partitioned.add(where)
            records["partition"] += _partition(record, run)
    records = {name: rows for name, rows in records.items() if rows or name not in OPTIONAL}
    if record.get("kind") == "compare":
        records |= _conclusions_so_far(record, records)
    return records


def _conclusions_so_far(
    record: Mapping[str, Any], records: Mapping[str, list[Record]]
) -> dict[str, list[Record]]:
    """The tables of a comparison that follow from the scores of runs that have ended; `compare` always among them."""
    varied, tuned = axes_of(record)
    if tuned:
        return {"compare": []}
    scored = [row for row in records["summary"] if row.get("status") != UNFINISHED]
    tables = conclusions(scored, [], record["baseline"], record["score"], varied, records["rounds"])
    return {name: rows for name, rows in tables.items() if rows or name == "compare"}


UNFINISHED = "unfinished"  # the status of such a run in `summary.csv` of a comparison


def _so_far(record: Mapping[str, Any], run: UnfinishedRun) -> list[Record]:
    """The line of `summary.csv` of a run that has not ended: its scores so far; none before its first commit."""
    rows, evaluate = run.rows("rounds"), record["scenario"]["evaluate"]
    if not rows:
        return []
    reason = f"unfinished: round {run.round} of {run.rounds}"
    line = summarise(
        rows, evaluate["metric"], evaluate["last"], evaluate.get("target"), "running", reason
    )
    status = {"status": UNFINISHED} if record.get("kind") == "compare" else {}
    return [{**run.who, "seed": run.seed, **line, **status}]


def _partition(record: Mapping[str, Any], run: UnfinishedRun) -> list[Record]:
    """Rows of `partition.csv`, which methods of a comparison share."""
    shared = {name: value for name, value in run.who.items() if name != "method"}
    return [
        {**(shared if record.get("kind") == "compare" else {}), **row}
        for row in run.rows("partition")
    ]


def axes_of(record: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Paths of a comparison that vary, and those that are tuned, of all methods or of some."""
    cells = record.get("cells") or []
    # method, variant, what varies, tuned, what is tuned; of a method that is not tuned the last ones are missing
    columns = list(dict.fromkeys(name for cell in cells for name in cell))
    after = columns.index("tuned") if "tuned" in columns else len(columns)
    return columns[2:after] if "variant" in columns else [], columns[after + 1 :]


def order_of(record: Mapping[str, Any], name: str) -> Sequence[str]:
    """Columns of a table, in their order."""
    return ordered(name, *axes_of(record)) if record.get("kind") == "compare" else ORDER[name]


def csv_of(
    record: Mapping[str, Any], records: Mapping[str, list[Record]]
) -> Iterator[tuple[str, str]]:
    """Tables as files: name and text."""
    for name, rows in records.items():
        yield f"{name}.csv", tables.to_csv(rows, order_of(record, name))


def frames_of(
    record: Mapping[str, Any], records: Mapping[str, list[Record]]
) -> dict[str, pd.DataFrame]:
    """Tables as frames by name."""
    return {name: tables.frame(rows, order_of(record, name)) for name, rows in records.items()}


def told_apart(
    record: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]
) -> Mapping[str, pd.DataFrame]:
    """Frames for pictures: where it is not decided yet which setting a method is reported with, each is a method."""
    if ended(record) or not axes_of(record)[1]:
        return frames
    return {
        name: _by_setting(frame) if {"method", "tuned"} <= {*frame} else frame
        for name, frame in frames.items()
    }


def _by_setting(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows under the names of their settings; a method that is not tuned keeps its own."""
    settings = frame["tuned"].fillna("").astype(str)
    labels = [
        f"{method} {setting}".rstrip()
        for method, setting in zip(frame["method"], settings, strict=True)
    ]
    return frame.assign(method=labels).drop(columns="tuned")
