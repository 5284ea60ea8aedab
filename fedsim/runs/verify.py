"""`fedsim verify`: does a run directory hold what its own record says, and does the run come out the same again?"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.build import Experiment, build
from fedsim.build.experiment import numerics
from fedsim.compose import FAMILIES
from fedsim.data import Arrays
from fedsim.disk import files
from fedsim.disk import tables as frames
from fedsim.disk.tables import Record
from fedsim.errors import CheckpointError, DataError, DirectoryError, ScenarioError
from fedsim.runs import directory
from fedsim.runs.comparison import concluded, ordered
from fedsim.runs.environment import numerical
from fedsim.runs.execute import folder_of
from fedsim.runs.form import odd
from fedsim.runs.journal import LOG, differences
from fedsim.runs.reading import as_written, read_table
from fedsim.runs.record import record_of
from fedsim.runs.replay import Recorded, recorded, replayed
from fedsim.runs.result import ORDER, slug
from fedsim.scenario import Scenario, read
from fedsim.scenario.load import confined
from fedsim.scenario.reader import parse

ENDED = ("done", "diverged", "stopped", "incomplete")
LISTED = 5  # files that are missing, by name
CUMULATIVE = ("virtual_seconds", "bytes_up", "bytes_down", "epsilon")


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str  # what is wrong, what was found, or what is missing
    possible: bool = (
        True  # False: it could not be checked here, since something is missing that the directory does not hold
    )


class Verification(NamedTuple):
    """What was looked at in a run directory, in order; a check that fails, or cannot be made, may end the list.

    Attributes:
      path: of the directory.
      checks: what was found.
    """

    path: str
    checks: list[Check]

    @property
    def equal(self) -> bool:
        """Whether the run is what its record says, and came out the same again."""
        return all(check.ok for check in self.checks)

    @property
    def wrong(self) -> bool:
        """Whether something is not what the record says; where neither this nor `equal`, something could not be checked."""
        return any(check.possible and not check.ok for check in self.checks)

    def plain(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        checks = [check._asdict() for check in self.checks]
        return {"path": self.path, "equal": self.equal, "wrong": self.wrong, "checks": checks}


class Missing(Exception):
    """What is needed for a check and is not here, a line each: nothing is wrong for that."""

    def __init__(self, *lines: str):
        super().__init__("; ".join(lines))


# (name, problems, or what is missing for the check; what to say when there is none) -> whether there is none
Tell = Callable[[str, list[str] | Missing, str], bool]


def verify(
    path: str | os.PathLike[str],
    *,
    data: Arrays | None = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    device: str | None = None,
    whole: bool = False,
    say: Callable[[Check], None] | None = None,
    data_roots: Iterable[str | os.PathLike[str]] = (),
) -> Verification:
    """Confirm a run that has ended from its own record; nothing in its directory is touched.

    Its files against their hashes, its tables against its logs, and then the run itself: it is built anew from the
    scenario of its record, round 1 is replayed from the start model and the last rounds from the older of the two kept
    commits (all rounds where there is one), and every row, the final state and the model are compared bit by bit.

    Args:
      path: of the run directory.
      data: what `fedsim.run` was given, if it was given any.
      model: likewise.
      params: likewise.
      loss: likewise.
      device: compute on these, as for `fedsim.run`.
      whole: replay every round.
      say: called with every check as soon as it is made.
      data_roots: folders that the record may name data files in, besides the working directory.

    Returns:
      All checks in order, `.equal` where all were made and none failed, `.wrong` where one failed, `.plain()` for JSON.

    Raises:
      DirectoryError: when there is no run, or it cannot be read.
    """
    checks: list[Check] = []
    directory.demand_plain(Path(path))

    def tell(name: str, problems: list[str] | Missing, fine: str) -> bool:
        possible = not isinstance(problems, Missing)
        said = str(problems) if isinstance(problems, Missing) else "; ".join(problems)
        checks.append(Check(name, not said, said or fine, possible))
        if say:
            say(checks[-1])
        return not said

    given = {"data": data, "model": model, "params": params, "loss": loss}
    _verify(Path(path), given, data_roots, device, whole, tell)
    return Verification(str(path), checks)


def _verify(
    path: Path,
    given: dict[str, Any],
    data_roots: Iterable[str | os.PathLike[str]],
    device: str | None,
    whole: bool,
    tell: Tell,
) -> None:
    """What does not fit the record ends the checks: whatever builds on it would mean nothing."""
    record = directory.read_record(path)
    if not tell("record", _of_record(path, record), "whole") or record is None:
        return
    found = directory.hashes(path)
    if record.get("kind") == "compare":
        tell("files", _of_files(record, found), _besides(record, found))
        tell(
            "compare.csv",
            _of_comparison(path, record),
            "follows from summary.csv; the runs themselves are not replayed",
        )
        return
    if not tell("files", _of_files(record, found), _besides(record, found)):
        return
    seeds, problems = _seeds(path, record)
    if not tell("commits", problems, "fit the record and the logs"):
        return
    problems = [*_of_tables(path, record, seeds), *(p for seed in seeds for p in _of_rows(seed, record))]
    if not tell("tables", [*problems, *_of_ends(record, seeds)], "follow from the logs"):
        return
    checked, problems = _scenario(path, record, given, data_roots)
    if not tell("scenario", problems, "can be read again") or checked is None:
        return
    with numerics(checked, record["environment"].get("threads"), device) as devices:
        if not tell("environment", _of_environment(record, devices), "the recorded one"):
            return
        experiment, problems = _built(record, checked, given, devices)
        if not tell("data", problems, "with partitions and start models, the recorded ones") or experiment is None:
            return
        for seed in seeds:
            for rounds, problems in replayed(seed, experiment, whole):
                tell(f"seed {seed.who['seed']}, {rounds}", problems, "replayed, equal to the bit")


def _of_record(path: Path, record: dict[str, Any] | None) -> list[str]:
    # reading text takes a carriage return for a line feed, of which the record's own hash knows nothing
    if record is None or b"\r" in (path / directory.RECORD).read_bytes():
        return [f"{directory.RECORD} is damaged: its SHA-256 does not fit"]
    if record.get("status") not in ENDED:
        return [f"the run has not ended (its status is {record.get('status')}); fedsim run --resume goes on with it"]
    return [f"{directory.RECORD} has no {name} as a run writes it" for name in odd(record, "reasons", "files")]


def _of_files(record: dict[str, Any], found: dict[str, str]) -> list[str]:
    listed = record["files"]
    missing = [f"{name} is missing" for name in listed if name not in found]
    if len(missing) > LISTED:
        missing[LISTED:] = [f"and {len(missing) - LISTED} more of {len(listed)} are missing"]
    changed = [f"{name} is not what was written" for name in listed if name in found and found[name] != listed[name]]
    needed = {*_written(record), *(name for name in found if name.startswith(f"{directory.COMMITS}/"))}  # what is read
    return [*missing, *changed, *(f"{name} is not in the record" for name in sorted(needed.difference(listed)))]


def _written(record: dict[str, Any]) -> list[str]:
    """Files that every run writes."""
    if record.get("kind") == "compare":
        return [f"{table}.csv" for table in (*ORDER, "compare")] + ["scenario.yaml"]
    names = [f"{table}.csv" for table in ORDER] + ["scenario.yaml"]
    for seed in record["scenario"]["seeds"]:
        names.append(f"model.{slug(record['method'])}.{seed}.safetensors")
        names.append(str(folder_of(Path(), record["method"], seed) / LOG))
    return names


def _of_comparison(path: Path, record: dict[str, Any]) -> list[str]:
    """The tables of differences, ranks and profiles computed again from the scores in the tables beside them."""
    names = list((record.get("cells") or [{}])[0])  # method, variant, what varies, tuned, what was tuned
    after = names.index("tuned") if "tuned" in names else len(names)
    varied = names[2:after] if "variant" in names else []
    summary, tuning = (_rows_of(path, name, varied) for name in ("summary", "tuning"))
    if summary is None:
        return ["summary.csv is missing"]
    try:
        with as_written(path):
            again = concluded(summary, tuning or [], record["baseline"], record["score"], varied)
    except DirectoryError as error:
        return [str(error)]
    problems = []
    for name, rows in again.items():
        with files.told(path), contextlib.suppress(FileNotFoundError):
            there = (path / f"{name}.csv").read_text(encoding="utf-8")
            if there != frames.to_csv(rows, ordered(name, varied, names[after + 1 :])):
                problems.append(f"{name}.csv does not follow from summary.csv")
    return problems


def _rows_of(path: Path, name: str, varied: Sequence[str]) -> list[dict[str, Any]] | None:
    """The rows of a table, empty cells as None; what varies as it is written (0 beside 0.2 is no 0.0)."""
    table = read_table(path, name, words=varied)
    if table is None:
        return None
    return [{str(k): None if v != v else v for k, v in row.items()} for row in table.to_dict("records")]


def _besides(record: dict[str, Any], found: dict[str, str]) -> str:
    """What to say of files that are all there; others may lie beside them."""
    others = [name for name in found if name not in record["files"]]
    more = f"; not of this run: {', '.join(others[:5])}{' ...' if len(others) > 5 else ''}" if others else ""
    return f"{len(record['files'])}, as they were written{more}"


def _scenario(
    path: Path, record: dict[str, Any], given: dict[str, Any], data_roots: Iterable[str | os.PathLike[str]]
) -> tuple[Scenario | None, list[str] | Missing]:
    """The recorded scenario, read again; what it needs from outside has to be there."""
    needed = []
    for link in record["own_links"]:
        family, _, kind = link.partition(" ")
        if kind not in FAMILIES.get(family, {}):
            needed.append(f"{link} is not fedsim's own; give its file with --plugin, or fedsim.enable in Python")
    missing = [name for name in record["supplied"] if given.get(name) is None]
    if missing:
        call = ", ".join(f"{name}=..." for name in missing)
        needed.append(f"came from a Python program: {', '.join(missing)}; give it again, fedsim.verify(path, {call})")
    if needed:
        return None, Missing(*needed)
    try:
        return confined(read(record["scenario"]), path, data_roots), []
    except ScenarioError as error:
        return None, str(error).splitlines()


def _seeds(path: Path, record: dict[str, Any]) -> tuple[list[Recorded], list[str]]:
    seeds, problems = [], []
    for seed in record["scenario"]["seeds"]:
        try:
            seeds.append(recorded(path, record, seed))
        except (CheckpointError, KeyError, TypeError) as error:
            problems += str(error).splitlines() if isinstance(error, CheckpointError) else [f"seed {seed}: {error!r}"]
    return seeds, problems


def _of_tables(path: Path, record: dict[str, Any], seeds: list[Recorded]) -> list[str]:
    """The CSV files made again from the logs, and the scenario file against the record."""
    problems = []
    for table, order in ORDER.items():
        text = frames.to_csv([row for seed in seeds for row in seed.tables.get(table, [])], order)
        with files.told(path):
            there = (path / f"{table}.csv").read_bytes()
        if there != text.encode():
            lines = zip(there.splitlines(), text.encode().splitlines(), strict=False)
            line = next((n for n, (one, two) in enumerate(lines, 1) if one != two), None)
            problems.append(f"{table}.csv is not what the logs say{f', from line {line}' if line else ''}")
    try:
        values = parse((path / "scenario.yaml").read_text(encoding="utf-8"), "scenario.yaml").values
    except (ScenarioError, UnicodeDecodeError) as error:
        return [*problems, f"scenario.yaml: {error}"]
    return problems + [
        f"scenario.yaml: {f}: {one}, in the record {two}" for f, one, two in differences(values, record["scenario"])
    ]


def _of_rows(seed: Recorded, record: dict[str, Any]) -> list[str]:
    """Rows without a gap, sums that never fall, and the summary that follows from them."""
    evaluate, end, rows = record["scenario"]["evaluate"], seed.end, seed.rows
    where, every = f"seed {seed.who['seed']}", evaluate["every"]
    try:
        whole = end["round"] // every + 1 + (end["round"] % every > 0)  # counted before they are made
        expected = sorted({*range(0, end["round"] + 1, every), end["round"]}) if whole == len(rows) else []
        if [row["round"] for row in rows] != expected:
            return [f"{where}: rounds.csv has not the rounds 0, {every}, ... {end['round']}"]
        problems = list(_falling(rows, where))
        asked = evaluate["metric"], evaluate["last"], evaluate.get("target")
        line = frames.summarise(rows, *asked, end["status"], end["reason"])
        fair = frames.fairness(seed.tables["clients"][0])
        if json.dumps([{**seed.who, **line, **fair}]) != json.dumps(seed.tables.get("summary")):
            problems.append(f"{where}: summary.csv does not follow from rounds.csv")
        return problems
    except (KeyError, TypeError, IndexError) as error:
        return [f"{where}: the log is damaged: {error!r}"]


def _falling(rows: list[Record], where: str) -> Iterator[str]:
    for name in CUMULATIVE:
        values = [row[name] for row in rows if name in row]
        fall = next((n for n in range(1, len(values)) if values[n] < values[n - 1]), None)
        if fall is not None:
            yield f"{where}: {name} falls in round {rows[fall]['round']}"


def _of_ends(record: dict[str, Any], seeds: list[Recorded]) -> list[str]:
    """Status and reasons of the record against the last commits; a run that went to its end has all its rounds."""
    early = [seed for seed in seeds if seed.end["status"] != "done"]
    reasons = {str(seed.who["seed"]): seed.end["reason"] for seed in early}
    problems = []
    if record["reasons"] != reasons or record["status"] != (early[-1].end["status"] if early else "done"):
        problems.append(f"{directory.RECORD} says of the end what the last commits do not")
    rounds = record["scenario"]["rounds"]
    short = [seed for seed in seeds if seed.end["status"] == "done" and seed.end["round"] != rounds]
    return problems + [f"seed {seed.who['seed']}: ends in round {seed.end['round']} of {rounds}" for seed in short]


def _of_environment(record: dict[str, Any], devices: list[Any]) -> list[str] | Missing:
    found = differences(record["environment"], json.loads(json.dumps(numerical(devices))))
    fields = [f"{name}: {was}, here {now}" for name, was, now in found]
    return Missing(f"cannot be replayed here, where bits may differ: {', '.join(fields)}") if fields else []


def _built(
    record: dict[str, Any], checked: Scenario, given: dict[str, Any], devices: list[Any]
) -> tuple[Experiment | None, list[str] | Missing]:
    """The run built anew, and in what it is not the recorded one."""
    try:
        experiment = build(checked, devices=devices, **given)
    except ScenarioError as error:
        lines = str(error).splitlines()
        elsewhere = all(problem.where == "data.path" for problem in error.problems)  # no such file, or not to be read
        return None, Missing(*lines) if elsewhere else lines
    except DataError as error:
        return None, str(error).splitlines()
    except OSError as error:
        return None, Missing(*str(error).splitlines())
    now = record_of(experiment, devices, [name for name, value in given.items() if value is not None])
    kept = ("scenario", "method", "hashes", "supplied", "own_links", "lanes", "block")
    was, is_ = ({name: whose.get(name) for name in kept} for whose in (record, now))
    return experiment, [f"{field}: {one}, built anew {two}" for field, one, two in differences(was, is_)]
