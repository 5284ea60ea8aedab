"""A run that has ended, read from its directory, to be built and replayed again."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.assemble import Experiment
from fedsim.assemble.experiment import numerics
from fedsim.errors import CheckpointError, DirectoryError
from fedsim.runs import checks, directory
from fedsim.runs.given import NOTHING_GIVEN, Given
from fedsim.runs.replay import RecordedSeed
from fedsim.runs.unfinished import is_comparison
from fedsim.runs.verify import Missing, Request, build_again, read_again
from fedsim.scenario import Scenario


class EndedRun(NamedTuple):
    """A run of one method that has ended.

    Attributes:
      path: its directory.
      record: its record.
      scenario: its scenario, read again.
      request: how it is read and built again.
    """

    path: Path
    record: dict[str, Any]
    scenario: Scenario
    request: Request

    @property
    def first_round(self) -> int:
        """The first round of its own: of a fork the one after those of its original, else 1."""
        return self.record.get("fork", {"round": 0})["round"] + 1

    @property
    def threads(self) -> int | None:
        """The threads that it computed with."""
        return self.record["environment"].get("threads")

    def numerics(self) -> contextlib.AbstractContextManager[list[Any]]:
        """Compute as it did, in this context; it yields the devices."""
        return numerics(self.scenario, self.threads, self.request.device)

    def build(self, devices: list[Any]) -> Experiment:
        """Build its experiment again (inside `numerics`).

        Raises:
          CheckpointError: where it is not the recorded one.
        """
        experiment, problems = build_again(self.request, self.record, self.scenario, devices)
        demand(self.path, problems.lines if isinstance(problems, Missing) else problems)
        assert experiment is not None
        return experiment

    def recorded(self, seeds: Sequence[int]) -> list[RecordedSeed]:
        """Return some of its seeds as they are recorded.

        Raises:
          CheckpointError: for seeds that it does not have, or that are damaged.
        """
        all_seeds, problems = checks.of_seeds(self.path, self.record)
        by_seed = {recorded.who["seed"]: recorded for recorded in all_seeds}
        missing = [seed for seed in seeds if seed not in by_seed]
        if missing:
            listed = ", ".join(map(str, by_seed))
            problems = [*problems, f"seed {missing[0]} is not one of the original's: {listed}"]
        demand(self.path, problems)
        return [by_seed[seed] for seed in seeds]


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
      path: the directory.
      device: the devices to compute on.
      data_roots: folders that the record may name data files in.
      function: the function of fedsim that was called with it.
      verb: what it does with a run.
      given: what a Python program passed.
      forks: whether it may be a fork, which has no start of its own.

    Raises:
      DirectoryError: where it is not.
    """
    record = directory.sound_record(path)
    if is_comparison(record):
        raise DirectoryError(f"{path}: is a comparison; {verb} a run of one method")
    if record["status"] in checks.UNDER_WAY:
        raise DirectoryError(f"{path}: has not ended; continue it with --resume first")
    if "fork" in record and not forks:
        raise DirectoryError(f"{path}: is a fork itself; {verb} its original")

    request = Request(
        path=path,
        given=given,
        data_roots=tuple(data_roots),
        device=device,
        whole=False,
        function=function,
    )
    scenario, problems = read_again(request, record)
    if scenario is None:
        lines = problems.lines if isinstance(problems, Missing) else problems
        raise DirectoryError("\n".join(f"{path}: {line}" for line in lines))
    return EndedRun(path, record, scenario, request)


def demand(path: Path, problems: Sequence[str]) -> None:
    """Refuse a run with problems.

    Raises:
      CheckpointError: where there are any.
    """
    if problems:
        raise CheckpointError("\n".join(f"{path}: {problem}" for problem in problems))
