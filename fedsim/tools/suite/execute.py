"""Running a suite: a comparison for every task, in a folder of its own."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.errors import Failure, exit_code
from fedsim.runs.compare import compare
from fedsim.runs.directory import RECORD
from fedsim.runs.lock import held
from fedsim.scenario import Scenario


class Ended(NamedTuple):
    """How the comparison of a task ended.

    Attributes:
      line: the headline, or why it failed.
      code: the exit code that `fedsim compare` would have.
    """

    task: str
    folder: Path
    line: str
    code: int


def run_suite(
    tasks: Sequence[Scenario],
    out: Path,
    resume: bool = False,
    ask: Callable[[], bool] = lambda: False,
    **options: Any,
) -> Iterator[Ended]:
    """Run the comparison of every task in a folder of its name; yield how each of them ended.

    A task that fails does not stop the others.

    Args:
      ask: returns True when the suite is to stop.

    Raises:
      Interrupted: when `ask` said so.
      LockedError: when another process is writing in `out`.
    """
    with held(out):
        for task in tasks:
            folder = out / task.spec.name
            goes_on = resume and (folder / RECORD).exists()
            yield _ended(task, folder, resume=goes_on, ask=ask, **options)


def _ended(task: Scenario, folder: Path, **options: Any) -> Ended:
    """Run the comparison of a task."""
    name = task.spec.name
    try:
        comparison = compare(task, out=folder, **options)
    except Failure as failure:
        return Ended(name, folder, " ".join(str(failure).split()), exit_code(failure))
    code = 0
    if comparison.status != "done":
        code = 8 if any(outcome.large for outcome in comparison.outcomes) else 5
    return Ended(name, folder, comparison.verdict[0], code)
