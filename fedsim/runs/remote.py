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
    from fedsim.runs.terms import Terms
    from fedsim.study.grid import Cell

ORDER, ANSWER, SAID, RUN = "order", "answer.json", "said", "run"  # files of a part, beside one another
Folder = dict[str, bytes]  # the files of a run's log and commits, by name
Who = tuple[str, int]  # label of a configuration, and seed


class Order(NamedTuple):
    """Runs that are to be played; none of them: only the terms are compared.

    Attributes:
      terms: of the comparison.
      cells: configurations, without their scenarios.
      begun: the runs, with what there is of each.
    """

    terms: "Terms"
    cells: "tuple[Cell, ...]" = ()
    begun: Mapping[Who, Folder] = {}


def play(order: bytes, wanted: Callable[[], bool] | None = None) -> tuple[dict[Who, Folder], dict[str, str]]:
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
        runs = {(label, seed): folder_content(folder / RUN / at) for label, seed, at in answer["runs"]}
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
    return f"the process ended with {f'signal {-code}' if code < 0 else f'code {code}'}{f': {last}' * bool(last)}"[:300]


def folder_content(folder: Path) -> Folder:
    """What there is of a run in its folder; nothing where it never began."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.is_dir() else {}


# ----------------------------------------------------------------------------------------- in the process of its own


def main(name: str, parent: str) -> None:
    """Read an order, play it, and write the answer."""
    from fedsim.runs.workers import end_with

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
    from fedsim.runs.terms import differing
    from fedsim.scenario import read

    terms = order.terms
    with contextlib.suppress(OSError):  # it may not be there; then paths of data are not, either
        os.chdir(terms.directory)
    with contextlib.ExitStack() as stack:
        try:
            _enable(terms, folder)
            base = read(terms.document)
            devices = stack.enter_context(numerics(base, terms.threads, terms.device))
            cells = [cell._replace(scenario=read(terms.document, cell.edits, cell.written)) for cell in order.cells]
        except Failure as error:  # what could be read where it was written cannot be read here
            return {"differs": " ".join(str(error).split())}
        lines = differing(terms, devices)
        return {"differs": "; ".join(lines)} if lines else _executed(order, cells, devices, folder / RUN)


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


def _executed(order: Order, cells: "list[Cell]", devices: list, path: Path) -> dict[str, Any]:
    """Go on with the runs from what there is of them, and say which there are."""
    from fedsim.assemble.experiment import numerics
    from fedsim.runs.execute import execute
    from fedsim.runs.filenames import Layout, label_of, names_of
    from fedsim.runs.sweep import swept

    layout = Layout(path, names_of(label for label, _ in order.begun))
    seeds: dict[str, list[int]] = {}
    for (label, seed), files in order.begun.items():
        seeds.setdefault(label, []).append(seed)
        folder = layout.folder(label, seed)
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    within = lambda scenario: numerics(scenario, order.terms.threads, order.terms.device)
    wanted_seeds = lambda plans: [planned._replace(seeds=seeds[label_of(planned.who)]) for planned in plans]
    outcomes = swept(
        cells, devices, within, lambda plans: execute(wanted_seeds(plans), layout, None, None, lambda: False)
    )
    failed = {label_of(outcome.cell.who): outcome.reason for outcome in outcomes if outcome.result is None}
    places = [(label, seed, os.path.relpath(layout.folder(label, seed), path)) for label, seed in order.begun]
    return {"runs": places, "failed": failed}


if __name__ == "__main__":
    main(*sys.argv[1:])
