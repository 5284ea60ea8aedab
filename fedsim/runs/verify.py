"""`fedsim verify`: does a run directory hold what its record says, and is it reproducible?"""

import contextlib
import json
import os
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.assemble import Experiment, build
from fedsim.assemble.experiment import numerics
from fedsim.compose import FAMILIES
from fedsim.errors import DataError, ScenarioError
from fedsim.installed import offered
from fedsim.runs import checks, directory
from fedsim.runs.differences import differences
from fedsim.runs.environment import numerical
from fedsim.runs.given import Given
from fedsim.runs.record import record_of
from fedsim.runs.replay import RecordedSeed, replayed
from fedsim.runs.unfinished import is_comparison
from fedsim.runs.untrusted import demand_regular_files, refusal_of_data
from fedsim.scenario import Scenario, read
from fedsim.scenario.load import confined
from fedsim.scenario.named_files import naming_files, with_paths_of, without_paths
from fedsim.scenario.reader import parse

# Entries of a record that have to be the same when the experiment is built again.
REPEATED = ("scenario", "method", "hashes", "supplied", "own_links", "lanes", "block")


class Check(NamedTuple):
    """One check.

    Attributes:
      name: its name.
      ok: whether it was made and found nothing wrong.
      detail: the problems, the result, or what is missing for the check.
      possible: whether it could be made here, with everything it needs from outside the directory.
    """

    name: str
    ok: bool
    detail: str
    possible: bool = True


class Verification(NamedTuple):
    """The checks of a run directory, in order; one that fails, or cannot be made, may end the list.

    Attributes:
      path: the directory.
      checks: the checks with their results.
    """

    path: str
    checks: list[Check]

    @property
    def equal(self) -> bool:
        """Whether the run is what its record says, and could be reproduced."""
        return all(check.ok for check in self.checks)

    @property
    def wrong(self) -> bool:
        """Whether something differs from the record.

        Where the run is neither `wrong` nor `equal`, something could not be checked.
        """
        return any(check.possible and not check.ok for check in self.checks)

    def plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        checks = [check._asdict() for check in self.checks]
        return {"path": self.path, "equal": self.equal, "wrong": self.wrong, "checks": checks}


class Missing(NamedTuple):
    """What a check needs and is not here, a line each: it is no fault of the run."""

    lines: list[str]


Problems = list[str] | Missing


class Request(NamedTuple):
    """What is verified, and how; see `verify`.

    Attributes:
      path: the run directory.
      given: what a Python program passed.
      data_roots: folders that the record may name data files in.
      device: the devices to compute on.
      whole: whether every round is replayed.
      function: the function of fedsim that was called, for messages.
      trust_data: whether HDF5 files and workbooks in the directory are read.
    """

    path: Path
    given: Given
    data_roots: Iterable[str | os.PathLike[str]]
    device: str | None
    whole: bool
    function: str = "verify"
    trust_data: bool = False


def verify(
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    device: str | None = None,
    whole: bool = False,
    say: Callable[[Check], None] | None = None,
    data_roots: Iterable[str | os.PathLike[str]] = (),
    trust_data: bool = False,
) -> Verification:
    """Confirm a finished run from its own record; nothing in its directory is changed.

    Its files are compared with their hashes, and its tables with its logs. Then the experiment is
    built again from the scenario in its record, round 1 is replayed from the start model, and the
    last rounds from the older of the two commits (all rounds where there is only one). Every row,
    the final state and the model are compared bit by bit.

    Args:
      path: the run directory.
      data: what `fedsim.run` was given, if it was.
      model: likewise.
      params: likewise.
      loss: likewise.
      device: compute on these, as `fedsim.run` takes it.
      whole: replay every round.
      say: called with every check as soon as it is made.
      data_roots: folders that the record may name data files in, besides the working directory.
      trust_data: also read HDF5 files and workbooks in the directory, or in its bundle.

    Returns:
      All checks in order, `.equal` where all were made and none failed, `.wrong` where one failed,
      `.plain()` for JSON.

    Raises:
      DirectoryError: when there is no run, or it cannot be read.
    """
    demand_regular_files(Path(path))
    request = Request(
        path=Path(path),
        given=Given(data, model, params, loss),
        data_roots=data_roots,
        device=device,
        whole=whole,
        trust_data=trust_data,
    )
    made: list[Check] = []
    with contextlib.closing(_checks(request)) as all_checks:
        for check in all_checks:
            made.append(check)
            if say is not None:
                say(check)
    return Verification(str(path), made)


def check_of(name: str, problems: Problems, result: str) -> Check:
    """Return a check by its problems.

    Args:
      name: its name.
      problems: what is wrong, or missing.
      result: the detail where nothing is wrong.
    """
    if isinstance(problems, Missing):
        return Check(name=name, ok=False, detail="; ".join(problems.lines), possible=False)
    if problems:
        return Check(name=name, ok=False, detail="; ".join(problems))
    return Check(name=name, ok=True, detail=result)


# ----------------------------------------------------------------------------------- the checks


def _checks(request: Request) -> Generator[Check]:
    """Make every check in turn.

    A problem ends the checks: whatever builds on it would mean nothing.
    """
    path = request.path
    record = directory.read_record(path)
    if record is not None and record.get("status") in checks.UNDER_WAY:
        reason = f"the run has not ended (its status is {record['status']})"
        ways = "--resume continues it, fedsim report shows how far it is"
        yield check_of("record", Missing([f"{reason}; {ways}"]), "")
        return
    problems = checks.of_record(path, record)
    yield check_of("record", problems, "intact")
    if problems or record is None:
        return

    hashes = directory.hashes(path)
    problems = checks.of_files(record, hashes)
    yield check_of("files", problems, checks.summary_of_files(record, hashes))
    if is_comparison(record):
        result = "follows from summary.csv; the runs themselves are not replayed"
        yield check_of("compare.csv", checks.of_comparison(path, record), result)
    elif not problems:
        yield from _checks_of_run(request, record)


def _checks_of_run(request: Request, record: dict[str, Any]) -> Generator[Check]:
    """The checks of a run whose files are what its record says."""
    seeds, problems = checks.of_seeds(request.path, record)
    yield check_of("commits", problems, "match the record and the logs")
    if problems:
        return

    problems = checks.of_tables(request.path, record, seeds)
    for seed in seeds:
        problems += checks.of_rows(seed, record)
    problems += checks.of_ends(record, seeds)
    yield check_of("tables", problems, "follow from the logs")
    if problems:
        return

    scenario, problems = read_again(request, record)
    yield check_of("scenario", problems, "can be read again")
    if scenario is None:
        return
    threads = record["environment"].get("threads")
    with numerics(scenario, threads, request.device) as devices:
        yield from _checks_of_replay(request, record, seeds, scenario, devices)


def _checks_of_replay(
    request: Request,
    record: dict[str, Any],
    seeds: list[RecordedSeed],
    scenario: Scenario,
    devices: list[Any],
) -> Generator[Check]:
    """The checks that need the experiment: it is built again, and replayed.

    Args:
      request: what is verified.
      record: the run's record.
      seeds: its seeds as recorded.
      scenario: its scenario, read again.
      devices: the devices to compute on.
    """
    problems = of_environment(record, devices)
    yield check_of("environment", problems, "is the recorded one")
    if problems:
        return
    experiment, problems = build_again(request, record, scenario, devices)
    yield check_of("data", problems, "the recorded ones, as are partitions and start models")
    if problems or experiment is None:
        return
    last_rows = [seed.rows[-1] for seed in seeds if seed.rows]
    for made in offered("RECORDED", "checks"):
        for name, problems, result in made(experiment, last_rows):
            yield check_of(name, problems, result)
    for seed in seeds:
        name = f"seed {seed.who['seed']}"
        for rounds, problems in replayed(seed, experiment, request.whole, "fork" in record):
            yield check_of(f"{name}, {rounds}", problems, "replayed with the same bits")


# -------------------------------------------------------------------------- scenario and experiment


def read_again(request: Request, record: dict[str, Any]) -> tuple[Scenario | None, Problems]:
    """Read the recorded scenario again; everything it needs from outside has to be here."""
    missing = _missing_links(record) + _missing_inputs(request, record)
    for lines in offered("RECORDED", "missing"):
        missing += lines(record["scenario"])
    if missing:
        return None, Missing(missing)
    if "extends" in record["scenario"]:
        return None, ["the recorded scenario has extends; a record holds what was resolved"]
    name = directory.SCENARIO
    in_file = parse((request.path / name).read_text(encoding="utf-8"), name).values
    # In the file, paths are relative to the run directory.
    values = with_paths_of(record["scenario"], in_file)
    try:
        scenario = confined(read(values), request.path, request.data_roots)
    except ScenarioError as error:
        return None, str(error).splitlines()
    refusal = None if request.trust_data else refusal_of_data(scenario, request.path)
    if refusal is not None:
        return None, Missing([refusal])
    return scenario, []


def _missing_links(record: dict[str, Any]) -> list[str]:
    """A line for each of the user's links that has not been enabled."""
    lines = []
    for link in record["own_links"]:
        family, _, kind = link.partition(" ")
        if kind not in FAMILIES.get(family, {}):
            ways = "give its file with --plugin, or call fedsim.enable in Python"
            lines.append(f"{link} is not part of fedsim; {ways}")
    return lines


def _missing_inputs(request: Request, record: dict[str, Any]) -> list[str]:
    """A line about what a Python program supplied, and is not given now."""
    missing = request.given.missing(record)
    if not missing:
        return []
    call = ", ".join(f"{name}=..." for name in missing)
    source = f"came from a Python program: {', '.join(missing)}"
    return [f"{source}; give it again, fedsim.{request.function}(path, {call})"]


def of_environment(record: dict[str, Any], devices: list[Any]) -> Problems:
    """Return how this environment differs from the recorded one."""
    present = json.loads(json.dumps(numerical(devices)))
    fields = []
    for name, old, new in differences(record["environment"], present):
        fields.append(f"{name}: {old}, here {new}")
    if not fields:
        return []
    return Missing([f"bits may differ in this environment: {', '.join(fields)}"])


def build_again(
    request: Request, record: dict[str, Any], scenario: Scenario, devices: list[Any]
) -> tuple[Experiment | None, Problems]:
    """Build the experiment again -> the experiment, and how it differs from the recorded one."""
    try:
        experiment = build(scenario, devices=devices, **request.given._asdict())
    except ScenarioError as error:
        return None, _of_refusal(record, error)
    except DataError as error:
        return None, str(error).splitlines()
    except OSError as error:
        return None, Missing(str(error).splitlines())

    again = record_of(experiment, devices, request.given.names)
    problems = []
    for field, old, new in differences(_repeated(record), _repeated(again)):
        problems.append(f"{field}: {old}, now {new}")
    return experiment, problems


def _of_refusal(record: dict[str, Any], error: ScenarioError) -> Problems:
    """The problems of a scenario; where all of them are files elsewhere, the files are missing."""
    files = {}
    for key, section in naming_files(record["scenario"]):
        files[".".join((*key, "path"))] = section["path"]
    missing = [files.get(problem.where) for problem in error.problems]
    if None in missing:
        return str(error).splitlines()
    return Missing([f"{file} is elsewhere (--data-root DIR)" for file in dict.fromkeys(missing)])


def _repeated(record: dict[str, Any]) -> dict[str, Any]:
    """The entries of a record that have to be the same when the experiment is built again."""
    entries = {name: record.get(name) for name in REPEATED}
    return {**entries, "scenario": without_paths(record["scenario"])}
