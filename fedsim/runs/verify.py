"""`fedsim verify`: does a run directory hold what its own record says, and does the run come out the same again?"""

import contextlib
import json
import os
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.assemble import Experiment, build
from fedsim.assemble.experiment import numerics
from fedsim.compose import FAMILIES
from fedsim.data import Arrays
from fedsim.errors import DataError, ScenarioError
from fedsim.runs import checks, directory
from fedsim.runs.changes import reasons, same_values
from fedsim.runs.environment import numerical
from fedsim.runs.journal import differences
from fedsim.runs.record import record_of
from fedsim.runs.replay import replayed
from fedsim.scenario import Scenario, read
from fedsim.scenario.load import confined
from fedsim.scenario.named_files import naming_files, with_paths_of, without_paths
from fedsim.scenario.reader import parse


class Check(NamedTuple):
    """One check.

    Attributes:
      name: of the check.
      ok: whether it was made and found nothing wrong.
      detail: the problems, the result, or what is missing for the check.
      possible: whether it could be made here, with all it needs from outside of the directory.
    """

    name: str
    ok: bool
    detail: str
    possible: bool = True


class Verification(NamedTuple):
    """The checks of a run directory, in order; one that fails, or cannot be made, may end the list.

    Attributes:
      path: of the directory.
      checks: with their results.
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


Problems = list[str] | Missing


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
    directory.demand_plain(Path(path))
    given = {"data": data, "model": model, "params": params, "loss": loss}
    made: list[Check] = []
    with contextlib.closing(_checks(Path(path), given, data_roots, device, whole)) as all_checks:
        for name, problems, fine in all_checks:
            text = str(problems) if isinstance(problems, Missing) else "; ".join(problems)
            possible = not isinstance(problems, Missing)
            made.append(Check(name=name, ok=not text, detail=text or fine, possible=possible))
            if say:
                say(made[-1])
    return Verification(str(path), made)


def _checks(
    path: Path,
    given: dict[str, Any],
    data_roots: Iterable[str | os.PathLike[str]],
    device: str | None,
    whole: bool,
) -> Generator[tuple[str, Problems, str]]:
    """Every check: its name, its problems, and its detail where there are none.

    A problem ends the checks: whatever builds on it would mean nothing.
    """
    record = directory.read_record(path)
    if record is not None and record.get("status") in checks.UNDER_WAY:
        reason = f"the run has not ended (its status is {record['status']})"
        yield (
            "record",
            Missing(f"{reason}; --resume goes on with it, fedsim report shows how far it is"),
            "",
        )
        return
    yield "record", (problems := checks.of_record(path, record)), "whole"
    if problems or record is None:
        return
    hashes = directory.hashes(path)
    yield "files", (problems := checks.of_files(record, hashes)), checks.beside(record, hashes)
    if record.get("kind") == "compare":
        follows = "follows from summary.csv; the runs themselves are not replayed"
        yield "compare.csv", checks.of_comparison(path, record), follows
        return
    if problems:
        return
    seeds, problems = checks.of_seeds(path, record)
    yield "commits", problems, "fit the record and the logs"
    if problems:
        return
    problems = [
        *checks.of_tables(path, record, seeds),
        *(p for seed in seeds for p in checks.of_rows(seed, record)),
    ]
    yield (
        "tables",
        (problems := [*problems, *checks.of_ends(record, seeds)]),
        "follow from the logs",
    )
    if problems:
        return
    yield (
        "version",
        (problems := reasons(record["scenario"], record["environment"])),
        "computes the same values",
    )
    if problems:
        return
    scenario, problems = _scenario(path, record, given, data_roots)
    yield "scenario", problems, "can be read again"
    if scenario is None:
        return
    with numerics(scenario, record["environment"].get("threads"), device) as devices:
        yield "environment", (problems := _of_environment(record, devices)), "the recorded one"
        if problems:
            return
        experiment, problems = _built(record, scenario, given, devices)
        yield "data", problems, "with partitions and start models, the recorded ones"
        if problems or experiment is None:
            return
        for seed in seeds:
            for rounds, problems in replayed(seed, experiment, whole):
                yield f"seed {seed.who['seed']}, {rounds}", problems, "replayed, equal to the bit"


def _scenario(
    path: Path,
    record: dict[str, Any],
    given: dict[str, Any],
    data_roots: Iterable[str | os.PathLike[str]],
) -> tuple[Scenario | None, Problems]:
    """The recorded scenario, read again; all that it needs from outside has to be here."""
    needed = []
    for link in record["own_links"]:
        family, _, kind = link.partition(" ")
        if kind not in FAMILIES.get(family, {}):
            needed.append(
                f"{link} is not fedsim's own; give its file with --plugin, or fedsim.enable in Python"
            )
    missing = [name for name in record["supplied"] if given.get(name) is None]
    if missing:
        call = ", ".join(f"{name}=..." for name in missing)
        needed.append(
            f"came from a Python program: {', '.join(missing)}; give it again, fedsim.verify(path, {call})"
        )
    if needed:
        return None, Missing(*needed)
    written = parse((path / "scenario.yaml").read_text(encoding="utf-8"), "scenario.yaml").values
    values = with_paths_of(record["scenario"], written)  # as seen from the run directory
    try:
        return confined(read(values), path, data_roots), []
    except ScenarioError as error:
        return None, str(error).splitlines()


def _of_environment(record: dict[str, Any], devices: list[Any]) -> Problems:
    recorded = dict(record["environment"])
    present = json.loads(json.dumps(numerical(devices)))
    if same_values(record["scenario"], str(recorded.get("fedsim"))):
        recorded["fedsim"] = present["fedsim"]
    others = differences(recorded, present)
    fields = [f"{name}: {was}, here {now}" for name, was, now in others]
    return Missing(f"bits may differ in this environment: {', '.join(fields)}") if fields else []


def _built(
    record: dict[str, Any], scenario: Scenario, given: dict[str, Any], devices: list[Any]
) -> tuple[Experiment | None, Problems]:
    """The run built anew, and its differences to the recorded one."""
    try:
        experiment = build(scenario, devices=devices, **given)
    except ScenarioError as error:
        lines = str(error).splitlines()
        files = {
            ".".join((*place, "path")): named["path"]
            for place, named in naming_files(record["scenario"])
        }
        elsewhere = [
            files.get(problem.where) for problem in error.problems
        ]  # no such file, or not to be read
        return None, lines if None in elsewhere else Missing(
            *(f"{file} is elsewhere (--data-root DIR)" for file in dict.fromkeys(elsewhere))
        )
    except DataError as error:
        return None, str(error).splitlines()
    except OSError as error:
        return None, Missing(*str(error).splitlines())
    again = record_of(
        experiment, devices, [name for name, value in given.items() if value is not None]
    )
    kept = ("scenario", "method", "hashes", "supplied", "own_links", "lanes", "block")
    was, now = (
        {**{k: one.get(k) for k in kept}, "scenario": without_paths(one["scenario"])}
        for one in (record, again)
    )
    return experiment, [
        f"{field}: {one}, built anew {two}" for field, one, two in differences(was, now)
    ]
