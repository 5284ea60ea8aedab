"""The carrier of tasks to a dask cluster, whose workers send the files of their runs back.

A worker needs fedsim and its dependencies in the same versions, and nothing else: it does not have
to see the run directory. What decides bits is compared before anything starts.
"""

import contextlib
import math
import pickle
import re
import socket
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedsim._version import __version__
from fedsim.disk import files
from fedsim.errors import LostError, ProcessError
from fedsim.runs.commits import number_of
from fedsim.runs.executor import Runs, keys_of, tasks_by_family
from fedsim.runs.filenames import RunFiles
from fedsim.runs.remote import (
    MAX_CHARACTERS,
    FolderContent,
    Order,
    compare_terms,
    execute_order,
    folder_content,
)
from fedsim.runs.terms import Terms

INSTALLATION = (
    "dask is not installed; pip install 'fedsim-jax[cluster]', or pip install 'dask[distributed]'"
)
ADDRESS = re.compile(r"(dask|tls)://(\[[0-9A-Fa-f:.]+\]|[\w.-]+):([0-9]{1,5})/?")

# A task whose process dies is repeated; dask's `allowed-failures` counts workers that are lost.
RETRIES = 2

# Few, since each builds its experiments again, and enough to keep all workers busy to the end.
TASKS_PER_SLOT = 4

TIMEOUT = 10  # seconds that a scheduler has to answer, and the first worker to appear
LOOK_SECONDS = 5  # between two looks whether there are workers
ALONE_SECONDS = 60  # without any worker, after which the comparison ends


class Cluster:
    """Brings tasks to the workers of a cluster; a `Carrier`."""

    def __init__(self, client: Any, name: str, terms: Terms, run_files: RunFiles):
        self.client = client
        self.name = name
        self.terms = terms
        self.run_files = run_files
        self.comparison = str(uuid.uuid4())
        self.last_seen = time.monotonic()  # when there was a worker
        with contextlib.suppress(TimeoutError):
            client.wait_for_workers(1, timeout=TIMEOUT)
        if not self.slots():
            start = "dask worker HOST:PORT --nthreads 1"
            raise ProcessError(f"{name}: the scheduler has no workers; start some: {start}")
        self._demand_terms()

    def _demand_terms(self) -> None:
        order = pickle.dumps(Order(self.terms, [], {}))
        answers = self.client.run(compare_terms, order, self.comparison, on_error="return")
        refusals = {worker: answers[worker] for worker in sorted(answers) if answers[worker]}
        for worker, answer in refusals.items():
            if isinstance(answer, OSError):
                raise LostError(f"{self.name}: worker {worker} is gone ({_short(answer)})")
        if not refusals:
            return

        worker, answer = next(iter(refusals.items()))
        if len(refusals) > 1:
            worker = f"{worker} (and {len(refusals) - 1} more workers)"
        reason = _short(answer)
        if not isinstance(answer, str):  # the worker could not read the order
            reason += f"; every worker needs fedsim {__version__}"
        raise ProcessError(f"{self.name}: worker {worker}: {reason}")

    def slots(self) -> int:
        """The threads of all workers; 0 where the scheduler does not answer."""
        with contextlib.suppress(OSError):
            return sum(self.client.nthreads().values())
        return 0

    def prepare(self, runs: Runs) -> list[list[Runs]]:
        """Cut the runs into few tasks."""
        slots = max(self.slots(), 1)
        most = max(math.ceil(len(keys_of(runs)) / (TASKS_PER_SLOT * slots)), 1)
        return tasks_by_family(runs, slots, most, least=1)

    def start(self, families: list[list[Runs]]) -> dict[Any, Runs]:
        """Order all tasks, each with what its runs have committed already."""
        started = {}
        for task in [task for tasks in families for task in tasks]:
            existing = {run: folder_content(self.run_files.folder(*run)) for run in keys_of(task)}
            order = pickle.dumps(Order(self.terms, task, existing))
            with warnings.catch_warnings(action="ignore"):  # dask's, about large orders
                future = self.client.submit(
                    execute_order,
                    order,
                    self.comparison,
                    key=f"fedsim-{uuid.uuid4()}",
                    pure=False,
                    retries=RETRIES,
                )
            started[future] = task
        families.clear()
        return started

    def receive(self, future: Any) -> str:
        """Write the files of a task's runs -> why there are none; empty where there are."""
        if future.status in ("cancelled", "lost"):
            return "the scheduler is gone"
        if future.status == "error":
            return _short(future.exception())
        runs, failed = future.result()
        future.release()
        for run, content in runs.items():
            if content:
                _write_folder(self.run_files.folder(*run), content)
        for label, reason in failed.items():
            warnings.warn(f"{label} failed on a worker ({reason}); trying it here", stacklevel=2)
        return ""

    def is_gone(self) -> bool:
        """Whether there has been no worker for a while."""
        if time.monotonic() > self.last_seen + LOOK_SECONDS and self.slots():
            self.last_seen = time.monotonic()
        return time.monotonic() > self.last_seen + ALONE_SECONDS

    def stop(self, futures: Sequence[Any]) -> None:
        """Cancel what has not ended."""
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self.client.cancel(list(futures))


# ------------------------------------------------------------------------------ the connection


@contextlib.contextmanager
def connected(on: Any) -> Iterator[tuple[Any, str]]:
    """Connect to a scheduler -> (a `distributed.Client`, its name in messages).

    Args:
      on: `dask://HOST:PORT`, or `tls://HOST:PORT` of a scheduler that asks for certificates, which
        dask's configuration names; or a client, which stays open.
    """
    if not isinstance(on, str):
        yield on, "on"
        return
    name = f"--on {on}"
    address = ADDRESS.fullmatch(on)
    if address is None or not 0 < int(address[3]) < 65536:
        ways = "write dask://HOST:PORT or tls://HOST:PORT, the address of a dask scheduler"
        raise ProcessError(f"{name}: {ways}")
    protocol = "tls" if address[1] == "tls" else "tcp"
    client = _client(name, protocol, host=address[2], port=int(address[3]))
    try:
        yield client, name
    finally:
        client.close(timeout=TIMEOUT)


def _client(name: str, protocol: str, host: str, port: int) -> Any:
    try:
        from dask import config

        # Before `distributed` is imported, which reads it.
        loggers = ("distributed", "distributed.client")
        config.set({"logging": dict.fromkeys(loggers, "critical")})
        from distributed import Client
    except ImportError:
        raise ProcessError(f"{name}: {INSTALLATION}") from None
    try:
        # Dask would try until its timeout, even where nobody listens.
        socket.create_connection((host.strip("[]"), port), TIMEOUT).close()
        return Client(f"{protocol}://{host}:{port}", timeout=TIMEOUT, set_as_default=False)
    except Exception as error:
        ways = "start one there (dask scheduler), or correct the address"
        if protocol == "tls":
            ways += " or the certificates"
        raise ProcessError(f"{name}: no dask scheduler answers ({_short(error)}); {ways}") from None


# ---------------------------------------------------------------------------------- the answers


def _write_folder(folder: Path, content: FolderContent) -> None:
    """Write the files of a run, its commits last: what a commit names must be there before it."""
    files.make_folder(folder)
    for name in sorted(content, key=lambda name: (number_of(name), name)):
        files.write(folder / Path(name).name, content[name])
    for path in sorted(folder.iterdir()):
        if path.name not in content:
            files.remove(path)


def _short(error: Any) -> str:
    """An exception, or its text, in one line."""
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        return f"{error.allowed_failures + 1} workers died of it"
    return " ".join(str(error).split())[:MAX_CHARACTERS] or type(error).__name__
