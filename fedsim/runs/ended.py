"""A run that has ended, read from its directory, to be built and played again."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.assemble import Experiment, build
from fedsim.assemble.experiment import numerics
from fedsim.compose import FAMILIES
from fedsim.errors import CheckpointError, DataError, DirectoryError, ScenarioError
from fedsim.runs import directory
from fedsim.runs.differences import differences
from fedsim.runs.given import NOTHING_GIVEN, Given
from fedsim.runs.record import record_of
from fedsim.runs.replay import RecordedSeed, recorded
from fedsim.runs.unfinished import is_comparison
from fedsim.runs.untrusted import refusal_of_data
from fedsim.scenario import Scenario, read
from fedsim.scenario.load import confined
from fedsim.scenario.named_files import naming_files, with_paths_of, without_paths
from fedsim.scenario.reader import parse

UNDER_WAY = ("running", "interrupted")

# Entries of a record that have to be the same when the experiment is built again.
REPEATED = ("scenario", "method", "hashes", "supplied", "own_links", "lanes", "block")


class MissingError(CheckpointError):
    """Something that is needed to repeat a run is not here: it is no fault of the run."""


class EndedRun(NamedTuple):
    """A run of one method that has ended.

    Attributes:
      data_roots: folders that the record may name data files in.
    """

    path: Path
    record: dict[str, Any]
    scenario: Scenario
    given: Given
    data_roots: tuple[str | os.PathLike[str], ...]
    device: str | None

    @property
    def first_round(self) -> int:
        """The first round of its own: of a fork the one after those of its original, else 1."""
        return self.record.get("fork", {"round": 0})["round"] + 1

    @property
    def threads(self) -> int | None:
        """The threads that it computed with."""
        return self.record["environment"]["threads"]

    def numerics(self) -> contextlib.AbstractContextManager[list[Any]]:
        """Compute as it did, in this context; it yields the devices."""
        return numerics(self.scenario, self.threads, self.device)

    def build(self, devices: list[Any]) -> Experiment:
        """Build its experiment again (inside `numerics`)."""
        with _naming(self.path):
            return build_again(self.record, self.scenario, self.given, devices)

    def recorded(self, seeds: Sequence[int]) -> list[RecordedSeed]:
        """Return some of its seeds as they are recorded."""
        with _naming(self.path):
            by_seed = {seed.who["seed"]: seed for seed in recorded_seeds(self.path, self.record)}
            for seed in seeds:
                if seed not in by_seed:
                    listed = ", ".join(map(str, by_seed))
                    text = f"seed {seed} is not one of the original's: {listed}"
                    raise CheckpointError(text)
        return [by_seed[seed] for seed in seeds]


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the run directory in every line of what is raised inside."""
    try:
        yield
    except CheckpointError as error:
        lines = str(error).splitlines()
        raise type(error)("\n".join(f"{path}: {line}" for line in lines)) from None


def ended_record(path: Path) -> dict[str, Any]:
    """Return the record of a run or a comparison that has ended."""
    record = directory.sound_record(path)
    if record["status"] in UNDER_WAY:
        raise DirectoryError(f"{path}: has not ended; continue it with --resume first")
    return record


def ended_run(
    path: Path,
    device: str | None,
    data_roots: Iterable[str | os.PathLike[str]],
    function: str,
    verb: str,
    given: Given = NOTHING_GIVEN,
    forks: bool = False,
) -> EndedRun:
    """Return the run in a directory, which has ended and is what its record says.

    Args:
      function: the function of fedsim that was called with it.
      verb: what it does with a run.
      forks: whether it may be a fork, which has no start of its own.
    """
    record = ended_record(path)
    if is_comparison(record):
        raise DirectoryError(f"{path}: is a comparison; {verb} a run of one method")
    if "fork" in record and not forks:
        raise DirectoryError(f"{path}: is a fork itself; {verb} its original")
    try:
        with _naming(path):
            roots = tuple(data_roots)
            scenario = read_again(path, record, given, roots, function)
    except CheckpointError as error:
        raise DirectoryError(str(error)) from None
    return EndedRun(path, record, scenario, given, roots, device)


# ------------------------------------------------------------------------------------- its parts


def recorded_seeds(path: Path, record: dict[str, Any]) -> list[RecordedSeed]:
    """Read the logs and commits of all seeds of a run.

    Raises:
      CheckpointError: with everything that is damaged, or does not match.
    """
    seeds = []
    problems = []
    for seed in record["scenario"]["seeds"]:
        try:
            seeds.append(recorded(path, record, seed))
        except CheckpointError as error:
            problems.append(str(error))
        except (KeyError, TypeError) as error:
            problems.append(f"seed {seed}: {error!r}")
    if problems:
        raise CheckpointError("\n".join(problems))
    return seeds


def read_again(
    path: Path,
    record: dict[str, Any],
    given: Given,
    data_roots: Iterable[str | os.PathLike[str]],
    function: str,
    trust_data: bool = False,
) -> Scenario:
    """Read the recorded scenario of a run or a comparison again.

    Args:
      function: the function of fedsim that was called, for messages.
      trust_data: whether HDF5 files and workbooks in the directory are read.

    Raises:
      MissingError: for what it needs from outside, and is not here.
      CheckpointError: where it cannot be read.
    """
    missing = _missing_links(record)
    if names := given.missing(record):
        call = ", ".join(f"{name}=..." for name in names)
        source = f"came from a Python program: {', '.join(names)}"
        missing.append(f"{source}; give it again, fedsim.{function}(path, {call})")
    if missing:
        raise MissingError("\n".join(missing))
    if "extends" in record["scenario"]:
        raise CheckpointError("the recorded scenario has extends; a record holds what was resolved")
    # In the file, paths are relative to the run directory.
    values = with_paths_of(record["scenario"], scenario_in(path))
    try:
        scenario = confined(read(values), path, data_roots)
    except ScenarioError as error:
        raise CheckpointError(str(error)) from None
    refusal = None if trust_data else refusal_of_data(scenario, path)
    if refusal is not None:
        raise MissingError(refusal)
    return scenario


def scenario_in(path: Path) -> dict[str, Any]:
    """The values in the scenario file of a run directory."""
    name = directory.SCENARIO
    try:
        return parse((path / name).read_text(encoding="utf-8"), name).values
    except (ScenarioError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{name}: {error}") from None


def _missing_links(record: dict[str, Any]) -> list[str]:
    """A line for each of the user's links that has not been enabled."""
    lines = []
    for link in record["own_links"]:
        family, _, kind = link.partition(" ")
        if kind not in FAMILIES.get(family, {}):
            ways = "give its file with --plugin, or call fedsim.enable in Python"
            lines.append(f"{link} is not part of fedsim; {ways}")
    return lines


def build_again(
    record: dict[str, Any], scenario: Scenario, given: Given, devices: list[Any]
) -> Experiment:
    """Build the experiment of a run again (inside `numerics`).

    Raises:
      MissingError: for files that are not here.
      CheckpointError: where it is not the recorded one.
    """
    try:
        experiment = build(scenario, devices=devices, **given._asdict())
    except ScenarioError as error:
        raise _of_refusal(record, error) from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except OSError as error:
        raise MissingError(str(error)) from None

    again = record_of(experiment, devices, given.names)
    lines = []
    for field, old, new in differences(_repeated(record), _repeated(again)):
        lines.append(f"{field}: {old}, now {new}")
    if lines:
        raise CheckpointError("\n".join(lines))
    return experiment


def _of_refusal(record: dict[str, Any], error: ScenarioError) -> CheckpointError:
    """What is wrong with a scenario; where all of it are files elsewhere, these are missing."""
    files = {}
    for key, section in naming_files(record["scenario"]):
        files[".".join((*key, "path"))] = section["path"]
    missing = [files.get(problem.where) for problem in error.problems]
    if None in missing:
        return CheckpointError(str(error))
    lines = [f"{file} is elsewhere (--data-root DIR)" for file in dict.fromkeys(missing)]
    return MissingError("\n".join(lines))


def _repeated(record: dict[str, Any]) -> dict[str, Any]:
    """The entries of a record that have to be the same when the experiment is built again."""
    entries = {name: record.get(name) for name in REPEATED}
    return {**entries, "scenario": without_paths(record["scenario"])}
