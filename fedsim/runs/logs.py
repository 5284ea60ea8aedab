"""`log_to`: who else gets the rows of a run, and keeps them; tools bring them."""

import os
from collections.abc import Callable, Sequence
from typing import Protocol

from fedsim.engine.run import Row
from fedsim.errors import Problem, ScenarioError
from fedsim.installed import modules_with
from fedsim.runs.execute import JournaledRun
from fedsim.runs.filenames import RunFiles

OPTION = "--log-to"


class Log(Protocol):
    """A listener that is closed when there will be no more rows."""

    def __call__(self, journaled: JournaledRun, row: Row | None) -> None: ...

    def close(self) -> None: ...


# Called with the files of the run directory, and whether the command continues what is there.
LogOpener = Callable[[RunFiles, bool], Log]


def log_opener(log_to: str | Sequence[str], out: str | os.PathLike[str] | None) -> LogOpener | None:
    """What opens the log that a user asks for; None where nobody does."""
    if not log_to:
        return None
    for module in modules_with("LOG"):
        return module.opener(log_to, out)
    raise ScenarioError([Problem("", "the tool trackers is not installed")], OPTION)
