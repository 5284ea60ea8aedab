"""Replaying a drawn share of the runs of a suite."""

import contextlib
import math
import random
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.errors import DirectoryError
from fedsim.runs import directory
from fedsim.runs.verify import Check, Checks, Stopped, Verification, verify
from fedsim.tools.suite.board import runs_in, task_folders
from fedsim.tools.suite.replay import replay_cells


class Drawn(NamedTuple):
    """Runs of a comparison that are replayed.

    Attributes:
      runs: the first columns of their rows, with their seeds.
    """

    path: Path
    runs: list[Mapping[str, Any]]


def draw(folder: Path, share: float, seed: int) -> list[Drawn]:
    """Draw runs from all tasks of a folder, at least one, for every comparison of them.

    Raises:
      DirectoryError: for a folder without runs, and a directory that is damaged.
    """
    all_runs = []
    paths = [path for paths in task_folders(folder).values() for path in paths]
    for path in paths:
        for who, _ in runs_in(path, directory.sound_record(path)):
            all_runs.append((path, who))
    if not all_runs:
        raise DirectoryError(f"{folder}: no run of a task; fedsim suite run makes them")

    number = math.ceil(share * len(all_runs))
    positions = random.Random(seed).sample(range(len(all_runs)), number)
    drawn = [all_runs[position] for position in sorted(positions)]
    return [Drawn(path, [who for at, who in drawn if at == path]) for path in paths]


def verify_drawn(
    drawn: Drawn,
    device: str | None = None,
    whole: bool = False,
    say: Callable[[Check], None] | None = None,
    data_roots: Iterable[str | PathLike[str]] = (),
) -> Verification:
    """Check the files and tables of a comparison, and replay the runs that were drawn of it.

    A directory that cannot be read has a check that failed, so that others can follow.

    Args:
      say: called with every check as soon as it is made.
    """
    made = Checks(say)
    try:
        verification = verify(drawn.path, say=say)
    except DirectoryError as error:
        with made.check("directory", "", ends=False) as problems:
            problems += str(error).splitlines()
        return Verification(str(drawn.path), made.made)
    if not verification.equal or not drawn.runs:
        return verification
    with contextlib.suppress(Stopped):
        replay_cells(drawn.path, drawn.runs, made, data_roots, device, whole)
    return Verification(str(drawn.path), [*verification.checks, *made.made])
