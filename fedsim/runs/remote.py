"""What happens on a worker of a cluster: another process executes runs, whose files are sent back.

The worker's own process imports nothing but this file, so that whatever ran in it before, its
threads and its numerics, decides no bits. The other process executes orders of one comparison. It
ends when nobody wants its runs any more, or when the worker is gone.
"""

import asyncio
import contextlib
import os
import pickle
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from fedsim.runs.executor import RunKey, Runs
    from fedsim.runs.terms import Terms

# A file and a folder of a process, in a temporary folder.
OUTPUT = "output"
PLUGINS = "plugins"

MAX_CHARACTERS = 300  # of a reason
LOOK_SECONDS = 0.05  # between two questions whether an answer is still wanted
IDLE_SECONDS = 10  # that a process waits for the next order of its comparison

FolderContent = dict[str, bytes]  # the files of a run's log and commits, by name
Answer: TypeAlias = "tuple[dict[RunKey, FolderContent], dict[str, str]]"


class Order(NamedTuple):
    """Runs that are to be executed; without any, only the terms are compared.

    Attributes:
      runs: the runs, without their scenarios.
      existing: what each run has committed already.
    """

    terms: "Terms"
    runs: "Runs"
    existing: "Mapping[RunKey, FolderContent]"


# ------------------------------------------------------------------------ in the worker's process


class OrderProcess:
    """A process that executes the orders of one comparison, one at a time; it ends with this one.

    Importing, planning and loading programs take seconds, which orders after the first do not wait
    for.

    Args:
      comparison: a name of the comparison that no other has.
    """

    def __init__(self, comparison: str):
        self.comparison = comparison
        self.temporary = tempfile.TemporaryDirectory(prefix="fedsim-")
        self.output = Path(self.temporary.name, OUTPUT)
        command = [sys.executable, "-P", "-m", __name__, self.temporary.name]
        command += [str(os.getpid()), str(IDLE_SECONDS)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output
            )

    def execute(self, order: bytes, is_wanted: Callable[[], bool]) -> "Answer":
        """Execute an order; see `execute_order`."""
        orders = self.process.stdin
        answers = self.process.stdout
        assert orders is not None and answers is not None  # they are pipes
        with contextlib.suppress(OSError):  # it has died, as is seen below
            orders.write(order)
            orders.flush()
        while not select.select([answers], [], [], LOOK_SECONDS)[0]:
            if not is_wanted():
                raise RuntimeError("the task has been cancelled")
        try:
            answer = pickle.load(answers)
        except (EOFError, pickle.UnpicklingError):
            raise RuntimeError(_reason(self.output, self.process.wait())) from None
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def end(self) -> None:
        """End the process at once, and remove its files."""
        self.process.kill()
        self.process.communicate()
        self.temporary.cleanup()


_idle: list[OrderProcess] = []
_idle_lock = threading.Lock()


def execute_order(
    order: bytes, comparison: str, is_wanted: Callable[[], bool] | None = None
) -> "Answer":
    """Execute an order in a process of its comparison, which ends with this one.

    Args:
      order: a pickled `Order`.
      comparison: a name of the comparison that no other has; its orders have the same terms.
      is_wanted: asked repeatedly whether to continue; left out: whether the task of this thread has
        been cancelled.

    Returns:
      The files of the runs, and by label why configurations cannot be run.

    Raises:
      RuntimeError: in one line: the terms are not met here, or the process has died.
    """
    is_wanted = is_wanted or _task_is_wanted()
    process = _idle_process(comparison) or OrderProcess(comparison)
    try:
        answer = process.execute(order, is_wanted)
    except BaseException:
        process.end()
        raise
    with _idle_lock:
        _idle.append(process)
    return answer


def _idle_process(comparison: str) -> OrderProcess | None:
    """Take an idle process of a comparison, if there is one; those of others end."""
    with _idle_lock:
        for process in list(_idle):
            if process.comparison != comparison or process.process.poll() is not None:
                _idle.remove(process)
                process.end()
        return _idle.pop() if _idle else None


async def compare_terms(order: bytes, comparison: str) -> str:
    """Why this worker does not meet the terms of an order; empty where it does.

    Meanwhile the worker continues with its other work.
    """
    try:
        await asyncio.to_thread(execute_order, order, comparison, lambda: True)
    except RuntimeError as error:
        return str(error)
    return ""


def _task_is_wanted() -> Callable[[], bool]:
    """A function that tells whether the scheduler still asks for the task of this thread."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state not in ("cancelled", "resumed")

    return is_wanted


def _reason(output: Path, code: int) -> str:
    """Why a process ended without an answer: its return code, and the last line that it printed."""
    end = f"signal {-code}" if code < 0 else f"code {code}"
    text = f"the process ended with {end}"
    for line in reversed(output.read_text(errors="replace").split("\n")):
        if line.strip():
            text += f": {line.strip()}"
            break
    return text[:MAX_CHARACTERS]


def folder_content(folder: Path) -> FolderContent:
    """The files in a run's folder; none where it never started."""
    if not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# --------------------------------------------------------------------------- in the other process


def main(folder: str, parent: str, idle_seconds: str) -> None:
    """Answer the orders that the parent writes to stdin, in turn, on stdout.

    An answer is an `Answer`, or a line: how this machine differs from the terms.

    Args:
      folder: for files; it is removed by whoever ends this process.
      parent: the id of the process that started this one.
      idle_seconds: how long to wait for the next order.
    """
    from fedsim.runs.spawned import end_with

    end_with(int(parent))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what is printed is no answer
    while select.select([sys.stdin], [], [], float(idle_seconds))[0]:
        answer = _answer(pickle.load(sys.stdin.buffer), Path(folder))
        answers.write(pickle.dumps(answer))
        answers.flush()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # an orderly shutdown would take a second


def _answer(order: Order, folder: Path) -> "Answer | str":
    """Compare the terms, and execute the runs where they are met."""
    from fedsim.assemble.experiment import numerics
    from fedsim.errors import Failure
    from fedsim.runs.executor import with_scenarios
    from fedsim.runs.terms import differing
    from fedsim.scenario import read

    terms = order.terms
    with contextlib.suppress(OSError):  # without the directory, relative paths of data are missing
        os.chdir(terms.directory)
    try:
        _enable(terms, folder / PLUGINS)
        with numerics(read(terms.document), terms.threads, terms.device) as devices:
            runs = with_scenarios(order.runs, terms.document)
            differences = differing(terms, devices)
    except Failure as error:  # what could be read where it was sent from cannot be read here
        return " ".join(str(error).split())
    if differences:
        return "; ".join(differences)
    if not runs:
        return {}, {}
    with tempfile.TemporaryDirectory(dir=folder) as path:
        return _execute(order._replace(runs=runs), Path(path))


def _enable(terms: "Terms", folder: Path) -> None:
    """Enable the plug-ins; those that are files are written to a folder first.

    All orders have the same ones, and a file that is imported already is not imported again.
    """
    from fedsim.scenario import enable

    for number, (plugin, text) in enumerate(terms.plugins):
        if text is None:
            enable(plugin)
        else:
            path = folder / str(number) / Path(plugin).name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
            enable(str(path))


def _execute(order: Order, path: Path) -> "Answer":
    """Resume the runs in a folder from what they have committed."""
    from fedsim.runs.filenames import RunFiles, names_of
    from fedsim.runs.sweep import run_sweep

    run_files = RunFiles(path, names_of(label for label, _ in order.existing))
    for run, content in order.existing.items():
        folder = run_files.folder(*run)
        folder.mkdir(parents=True)
        for name, data in content.items():
            (folder / name).write_bytes(data)

    reasons = run_sweep(order.runs, run_files, order.terms.device, order.terms.threads)
    return {run: folder_content(run_files.folder(*run)) for run in order.existing}, reasons


if __name__ == "__main__":
    main(*sys.argv[1:])
