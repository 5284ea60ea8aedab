"""`fedsim verify`: does a run directory hold what its record says, and is it reproducible?"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.assemble import Experiment
from fedsim.assemble.experiment import numerics
from fedsim.errors import CheckpointError, DataError, ScenarioError
from fedsim.installed import offered
from fedsim.runs import checks, directory
from fedsim.runs.differences import differences
from fedsim.runs.ended import UNDER_WAY, MissingError, build_again, read_again, recorded_seeds
from fedsim.runs.environment import numerical
from fedsim.runs.given import Given
from fedsim.runs.replay import RecordedSeed, replayed
from fedsim.runs.unfinished import is_comparison
from fedsim.runs.untrusted import demand_regular_files

SAME_BITS = "replayed with the same bits"


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


class Stopped(Exception):
    """A check failed on which all others build."""


class Checks:
    """The checks of a run directory, made in turn."""

    def __init__(self, say: Callable[[Check], None] | None):
        self.say = say
        self.made: list[Check] = []

    @contextlib.contextmanager
    def check(self, name: str, result: str, ends: bool = True) -> Iterator[list[str]]:
        """Make a check in this context, which raises its problems, or adds them to the list.

        Args:
          result: the detail where nothing is wrong.
          ends: whether no other check is made where it fails.

        Raises:
          Stopped: where that is so.
        """
        problems: list[str] = []
        possible = True
        try:
            yield problems
        except MissingError as error:
            possible = False
            problems += str(error).splitlines()
        except (CheckpointError, DataError, ScenarioError) as error:
            problems += str(error).splitlines()
        detail = "; ".join(problems) or result
        check = Check(name=name, ok=not problems, detail=detail, possible=possible)
        self.made.append(check)
        if self.say is not None:
            self.say(check)
        if problems and ends:
            raise Stopped


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
    made = Checks(say)
    with contextlib.suppress(Stopped):
        given = Given(data, model, params, loss)
        _verify(Path(path), made, given, data_roots, device, whole, trust_data)
    return Verification(str(path), made.made)


def _verify(
    path: Path,
    made: Checks,
    given: Given,
    data_roots: Iterable[str | os.PathLike[str]],
    device: str | None,
    whole: bool,
    trust_data: bool,
) -> None:
    record = directory.read_record(path)
    with made.check("record", "intact") as problems:
        if record is not None and record.get("status") in UNDER_WAY:
            reason = f"the run has not ended (its status is {record['status']})"
            ways = "--resume continues it, fedsim report shows how far it is"
            raise MissingError(f"{reason}; {ways}")
        problems += checks.of_record(path, record)
    assert record is not None

    hashes = directory.hashes(path)
    result = checks.summary_of_files(record, hashes)
    with made.check("files", result, ends=not is_comparison(record)) as problems:
        problems += checks.of_files(record, hashes)
    if is_comparison(record):
        result = "follows from summary.csv; the runs themselves are not replayed"
        with made.check("compare.csv", result) as problems:
            problems += checks.of_comparison(path, record)
        return

    with made.check("commits", "match the record and the logs"):
        seeds = recorded_seeds(path, record)
    with made.check("tables", "follow from the logs") as problems:
        problems += checks.of_tables(path, record, seeds)
    with made.check("scenario", "can be read again"):
        scenario = read_again(path, record, given, data_roots, "verify", trust_data)
        demand_tools(record)
    with numerics(scenario, record["environment"]["threads"], device) as devices:
        with made.check("environment", "is the recorded one"):
            demand_environment(record, devices)
        with made.check("data", "the recorded ones, as are partitions and start models"):
            experiment = build_again(record, scenario, given, devices)
        _recompute(experiment, seeds, made)
        for seed in seeds:
            for rounds, differing in replayed(seed, experiment, whole):
                name = f"seed {seed.who['seed']}, {rounds}"
                with made.check(name, SAME_BITS, ends=False) as problems:
                    problems += differing


def demand_tools(record: dict[str, Any]) -> None:
    """Refuse a run that a field cannot check with what is installed."""
    lines = []
    for missing in offered("RECORDED", "missing"):
        lines += missing(record["scenario"])
    if lines:
        raise MissingError("\n".join(lines))


def _recompute(experiment: Experiment, seeds: list[RecordedSeed], made: Checks) -> None:
    """Make the checks of fields about the last rounds of a run."""
    last_rows = [seed.rows[-1] for seed in seeds if seed.rows]
    for checks_of_field in offered("RECORDED", "checks"):
        for name, found, result in checks_of_field(experiment, last_rows):
            with made.check(name, result, ends=False) as problems:
                problems += found


def demand_environment(record: dict[str, Any], devices: list[Any]) -> None:
    """Refuse an environment in which bits may differ."""
    present = json.loads(json.dumps(numerical(devices)))
    fields = []
    for name, old, new in differences(record["environment"], present):
        fields.append(f"{name}: {old}, here {new}")
    if fields:
        raise MissingError(f"bits may differ in this environment: {', '.join(fields)}")
