"""What happens on a worker of a cluster: runs of a comparison, played by a process of their own, whose files are sent back.

The process of the worker itself imports nothing of this but what stands in this file: what ran there before, its threads
and its numerics, decide no bit. A process that is no longer wanted, or whose worker is gone, ends.
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
    from fedsim.runs.executor import Part, Run
    from fedsim.runs.terms import Terms

ORDER, ANSWER, SAID, RUN = (
    "order",
    "answer.json",
    "said",
    "run",
)  # files of a part, beside one another
Folder = dict[str, bytes]  # the files of a run's log and commits, by name


class Order(NamedTuple):
    """Runs that are to be played; none of them: only the terms are compared.

    Attributes:
      terms: of the comparison.
      runs: configurations, without their scenarios, and the seeds of each.
      begun: what there is of each run.
    """

    terms: "Terms"
    runs: "Part"
    begun: "Mapping[Run, Folder]"


def play(
    order: bytes, wanted: Callable[[], bool] | None = None
) -> "tuple[dict[Run, Folder], dict[str, str]]":
    """Play what was ordered, in a process that ends with this one -> (files of the runs; why by label, of what cannot be run).

    Args:
      order: pickled.
      wanted: asked now and then whether to go on; left out: the worker is asked whether its task was cancelled.

    Raises:
      RuntimeError: in one line: the terms cannot be met here, or the process is gone.
    """
    wanted = wanted or _wanted()
    with tempfile.TemporaryDirectory(prefix="fedsim-") as name:
        folder = Path(name)
        (folder / ORDER).write_bytes(order)
        command = [sys.executable, "-P", "-m", __name__, name, str(os.getpid())]
        with (folder / SAID).open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                while process.poll() is None and wanted():
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(0.5)
            finally:
                process.kill()
                process.wait()
        if not (folder / ANSWER).exists():
            raise RuntimeError(_last_words(folder / SAID, process.returncode))
        answer = json.loads((folder / ANSWER).read_text())
        if answer["differs"]:
            raise RuntimeError(answer["differs"])
        runs = {
            (label, seed): folder_content(folder / RUN / at) for label, seed, at in answer["runs"]
        }
        return runs, answer["failed"]


async def compare_terms(order: bytes) -> str:
    """Whether the terms of an order can be met here, tried while the worker goes on with its own -> why not."""
    try:
        await asyncio.to_thread(play, order, lambda: True)
    except RuntimeError as error:
        return str(error)
    return ""


def _wanted() -> Callable[[], bool]:
    """Whether the scheduler still asks for the task that this thread plays."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state not in ("cancelled", "resumed")

    return wanted


def _last_words(said: Path, code: int) -> str:
    """Why a process ended, by the last line that it printed."""
    lines = said.read_text(errors="replace").split("\n")
    last = next((line.strip() for line in lines[::-1] if line.strip()), "")
    return f"the process ended with {f'signal {-code}' if code < 0 else f'code {code}'}{f': {last}' * bool(last)}"[
        :300
    ]


def folder_content(folder: Path) -> Folder:
    """What there is of a run in its folder; nothing where it never began."""
    return (
        {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        if folder.is_dir()
        else {}
    )


# ----------------------------------------------------------------------------------------- in the process of its own


def main(name: str, parent: str) -> None:
    """Read an order, play it, and write the answer."""
    from fedsim.runs.spawned import end_with

    end_with(int(parent))
    folder = Path(name)
    order: Order = pickle.loads((folder / ORDER).read_bytes())
    answer = {"differs": "", "runs": [], "failed": {}, **_answered(order, folder)}
    (folder / f"{ANSWER}.tmp").write_text(json.dumps(answer))
    os.replace(folder / f"{ANSWER}.tmp", folder / ANSWER)
    os._exit(0)  # nothing else is to be done, and taking a process down takes a second


def _answered(order: Order, folder: Path) -> dict[str, Any]:
    """Compare the terms, and play the runs where they are met."""
    from fedsim.assemble.experiment import numerics
    from fedsim.errors import Failure
    from fedsim.runs.executor import with_scenarios
    from fedsim.runs.terms import differing
    from fedsim.scenario import read

    terms = order.terms
    with contextlib.suppress(OSError):  # it may not be there; then paths of data are not, either
        os.chdir(terms.directory)
    try:
        _enable(terms, folder)
        with numerics(read(terms.document), terms.threads, terms.device) as devices:
            runs = with_scenarios(order.runs, terms.document)
            lines = differing(terms, devices)
    except Failure as error:  # what could be read where it was written cannot be read here
        return {"differs": " ".join(str(error).split())}
    if lines or not runs:
        return {"differs": "; ".join(lines)}
    return _played(order._replace(runs=runs), folder / RUN)


def _enable(terms: "Terms", folder: Path) -> None:
    """Enable the plug-ins, those that are files from files with the same text."""
    from fedsim.scenario import enable

    for number, (plugin, text) in enumerate(terms.plugins):
        if text is not None:
            path = folder / "plugins" / str(number) / Path(plugin).name
            path.parent.mkdir(parents=True)
            path.write_bytes(text)
            plugin = str(path)
        enable(plugin)


def _played(order: Order, path: Path) -> dict[str, Any]:
    """Go on with the runs from what there is of them, and say which there are."""
    from fedsim.runs.filenames import Layout, names_of
    from fedsim.runs.sweep import played

    layout = Layout(path, names_of(label for label, _ in order.begun))
    for run, files in order.begun.items():
        folder = layout.folder(*run)
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    failed = played(order.runs, layout, order.terms.device, order.terms.threads)
    places = [(*run, os.path.relpath(layout.folder(*run), path)) for run in order.begun]
    return {"runs": places, "failed": failed}


if __name__ == "__main__":
    main(*sys.argv[1:])
