"""What happens on a worker of a cluster: a new process executes runs, whose files are sent back.

The worker's own process imports nothing but this file, so that whatever ran in it before, its
threads and its numerics, decides no bits. The new process ends when nobody wants its runs any more,
or when the worker is gone.
"""

import asyncio
import contextlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fedsim.runs.executor import RunKey, Runs
    from fedsim.runs.terms import Terms

# Files and folders of an order, in a temporary folder.
ORDER = "order"
ANSWER = "answer.json"
OUTPUT = "output"
RUN = "run"

MAX_CHARACTERS = 300  # of a reason

FolderContent = dict[str, bytes]  # the files of a run's log and commits, by name


class Order(NamedTuple):
    """Runs that are to be executed; without any, only the terms are compared.

    Attributes:
      terms: the terms of the comparison.
      runs: the runs, without their scenarios.
      existing: what each run has committed already.
    """

    terms: "Terms"
    runs: "Runs"
    existing: "Mapping[RunKey, FolderContent]"


# ------------------------------------------------------------------------ in the worker's process


def execute_order(
    order: bytes, is_wanted: Callable[[], bool] | None = None
) -> "tuple[dict[RunKey, FolderContent], dict[str, str]]":
    """Execute an order in a new process, which ends with this one.

    Args:
      order: a pickled `Order`.
      is_wanted: asked repeatedly whether to continue; left out: whether the task of this thread has
        been cancelled.

    Returns:
      The files of the runs, and by label why configurations cannot be run.

    Raises:
      RuntimeError: in one line: the terms are not met here, or the process has died.
    """
    is_wanted = is_wanted or _task_is_wanted()
    with tempfile.TemporaryDirectory(prefix="fedsim-") as name:
        folder = Path(name)
        (folder / ORDER).write_bytes(order)
        code = _run_process(folder, is_wanted)
        if not (folder / ANSWER).exists():
            raise RuntimeError(_reason(folder / OUTPUT, code))
        answer = json.loads((folder / ANSWER).read_text())
        if answer["differs"]:
            raise RuntimeError(answer["differs"])
        runs = {}
        for label, seed, path in answer["runs"]:
            runs[label, seed] = folder_content(folder / RUN / path)
        return runs, answer["failed"]


def _run_process(folder: Path, is_wanted: Callable[[], bool]) -> int:
    """Run `main` in a new process until it ends or is no longer wanted -> its return code."""
    command = [sys.executable, "-P", "-m", __name__, str(folder), str(os.getpid())]
    with (folder / OUTPUT).open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            while process.poll() is None and is_wanted():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
        finally:
            process.kill()
            process.wait()
    return process.returncode


async def compare_terms(order: bytes) -> str:
    """Why this worker does not meet the terms of an order; empty where it does.

    Meanwhile the worker continues with its other work.
    """
    try:
        await asyncio.to_thread(execute_order, order, lambda: True)
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


# ----------------------------------------------------------------------------- in the new process


def main(name: str, parent: str) -> None:
    """Read an order, execute it, and write the answer."""
    from fedsim.runs.spawned import end_with

    end_with(int(parent))
    folder = Path(name)
    order: Order = pickle.loads((folder / ORDER).read_bytes())
    answer = {"differs": "", "runs": [], "failed": {}, **_answer(order, folder)}

    # Renamed when it is complete: a process may die while it writes.
    draft = folder / f"{ANSWER}.tmp"
    draft.write_text(json.dumps(answer))
    os.replace(draft, folder / ANSWER)
    os._exit(0)  # an orderly shutdown would take a second


def _answer(order: Order, folder: Path) -> dict[str, Any]:
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
        _enable(terms, folder)
        with numerics(read(terms.document), terms.threads, terms.device) as devices:
            runs = with_scenarios(order.runs, terms.document)
            differences = differing(terms, devices)
    except Failure as error:  # what could be read where it was sent from cannot be read here
        return {"differs": " ".join(str(error).split())}
    if differences or not runs:
        return {"differs": "; ".join(differences)}
    return _execute(order._replace(runs=runs), folder / RUN)


def _enable(terms: "Terms", folder: Path) -> None:
    """Enable the plug-ins; those that are files are written here first."""
    from fedsim.scenario import enable

    for number, (plugin, text) in enumerate(terms.plugins):
        if text is None:
            enable(plugin)
        else:
            path = folder / "plugins" / str(number) / Path(plugin).name
            path.parent.mkdir(parents=True)
            path.write_bytes(text)
            enable(str(path))


def _execute(order: Order, path: Path) -> dict[str, Any]:
    """Resume the runs from what they have committed -> their folders, and why some failed."""
    from fedsim.runs.filenames import RunFiles, names_of
    from fedsim.runs.sweep import run_sweep

    run_files = RunFiles(path, names_of(label for label, _ in order.existing))
    for run, content in order.existing.items():
        folder = run_files.folder(*run)
        folder.mkdir(parents=True)
        for name, data in content.items():
            (folder / name).write_bytes(data)

    reasons = run_sweep(order.runs, run_files, order.terms.device, order.terms.threads)
    folders = [(*run, os.path.relpath(run_files.folder(*run), path)) for run in order.existing]
    return {"runs": folders, "failed": reasons}


if __name__ == "__main__":
    main(*sys.argv[1:])
