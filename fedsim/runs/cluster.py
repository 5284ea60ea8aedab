"""The executor of a dask cluster, whose workers send the files of their runs back.

A worker needs fedsim and its dependencies in the same versions, and nothing else: it does not have
to see the run directory. What decides bits is compared before anything starts.
"""

import contextlib
import math
import os
import pickle
import re
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fedsim._version import __version__
from fedsim.disk import files
from fedsim.errors import Interrupted, LostError, ProcessError
from fedsim.runs.commits import number_of
from fedsim.runs.executor import RunKey, Runs, count_of, keys_of, without_scenarios
from fedsim.runs.filenames import RunFiles, label_of
from fedsim.runs.remote import FolderContent, Order, compare_terms, execute_order, folder_content
from fedsim.runs.terms import Terms

INSTALLATION = (
    "dask is not installed; pip install 'fedsim-jax[cluster]', or pip install 'dask[distributed]'"
)
CERTIFICATES = (
    "set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ...__TLS__CLIENT__CERT and ...__TLS__CLIENT__KEY "
    "to its files"
)
ADDRESS = re.compile(r"(dask|tls)://(\[[0-9A-Fa-f:.]+\]|[\w.-]+):([0-9]{1,5})/?")

# A task whose process dies is repeated; dask's `allowed-failures` counts workers that are lost.
RETRIES = 2

# Few, since each builds its experiments again, and enough to keep all workers busy to the end.
TASKS_PER_SLOT = 4

TIMEOUT = 10  # seconds that a scheduler has to answer, and the first worker to appear
LOOK_SECONDS = 5  # between two looks whether there are workers
ALONE_SECONDS = 60  # without any worker, after which the comparison ends
MAX_LISTED = 3  # configurations that a message names
MAX_CHARACTERS = 300  # of a reason


class Cluster:
    """Runs cells on the workers of a cluster; an `Executor`.

    Args:
      client: a `distributed.Client`.
      name: the cluster's name in messages.
      terms: what every worker has to meet.
      run_files: the files of the run directory, which the caller has locked.

    Raises:
      ProcessError: when there is no worker, or one that does not meet the terms.
      LostError: when a worker is lost meanwhile.
    """

    def __init__(self, client: Any, name: str, terms: Terms, run_files: RunFiles):
        self.client = client
        self.name = name
        self.terms = terms
        self.run_files = run_files
        self.comparison = str(uuid.uuid4())
        self.waiting: dict[Any, Runs] = {}  # future -> its runs
        with contextlib.suppress(TimeoutError):
            client.wait_for_workers(1, timeout=TIMEOUT)
        if not self.slots():
            start = "dask worker HOST:PORT --nthreads 1"
            raise ProcessError(f"{name}: the scheduler has no workers; start some: {start}")
        self._demand_terms()

    def _demand_terms(self) -> None:
        """Refuse workers that do not meet the terms."""
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

    def submit(self, runs: Runs) -> None:
        """Order the runs in tasks, each with what its runs have committed already."""
        for task in tasks_of(runs, max(self.slots(), 1)):
            existing = {run: folder_content(self.run_files.folder(*run)) for run in keys_of(task)}
            order = pickle.dumps(Order(self.terms, without_scenarios(task), existing))
            with warnings.catch_warnings(action="ignore"):  # dask's, about large orders
                future = self.client.submit(
                    execute_order,
                    order,
                    self.comparison,
                    key=f"fedsim-{uuid.uuid4()}",
                    pure=False,
                    retries=RETRIES,
                )
            self.waiting[future] = task

    def as_completed(self, ask: Callable[[], bool]) -> Iterator[list[RunKey]]:
        """Yield runs as they end, with their files written; see `Executor`."""
        lost: dict[str, list[str]] = {}  # reason -> tasks in words
        last_seen = time.monotonic()  # when there was a worker
        while self.waiting:
            if ask():
                raise Interrupted(f"with {sum(map(count_of, self.waiting.values()))} runs to go")
            done = [future for future in self.waiting if future.done()]
            for future in done:
                task = self.waiting.pop(future)
                reason = self._receive(future)
                if reason:
                    lost.setdefault(reason, []).append(_in_words(task))
                yield keys_of(task)

            if time.monotonic() > last_seen + LOOK_SECONDS and self.slots():
                last_seen = time.monotonic()
            if time.monotonic() > last_seen + ALONE_SECONDS:
                lost["no worker is left"] = list(map(_in_words, self.waiting.values()))
                break
            time.sleep(0 if done else 0.1)
        if lost:
            reasons = [f"{reason}: {_few(tasks)}" for reason, tasks in lost.items()]
            raise LostError(f"{self.name}: {'; '.join(reasons)}")

    def cancel(self) -> None:
        """Cancel what has not ended."""
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self.client.cancel(list(self.waiting))

    def _receive(self, future: Any) -> str:
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


# ------------------------------------------------------------------------------ the connection


@contextlib.contextmanager
def connected(on: Any) -> Iterator[tuple[Any, str]]:
    """Connect to a scheduler -> (a `distributed.Client`, its name in messages).

    Args:
      on: `dask://HOST:PORT`, or `tls://HOST:PORT` of a scheduler that asks for certificates, which
        dask's configuration names; or a client, which stays open.

    Raises:
      ProcessError: when there is no such scheduler, no dask here, or no certificate.
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
    """Connect to the scheduler at an address."""
    try:
        from dask import config

        # Before `distributed` is imported, which reads it.
        loggers = ("distributed", "distributed.client")
        config.set({"logging": dict.fromkeys(loggers, "critical")})
        from distributed import Client
    except ImportError:
        raise ProcessError(f"{name}: {INSTALLATION}") from None
    if protocol == "tls":
        _demand_certificates(name)
    try:
        # Dask would try until its timeout, even where nobody listens.
        socket.create_connection((host.strip("[]"), port), TIMEOUT).close()
        return Client(f"{protocol}://{host}:{port}", timeout=TIMEOUT, set_as_default=False)
    except Exception as error:
        ways = "start one there (dask scheduler), or correct the address"
        if protocol == "tls":
            ways += " or the certificates"
        raise ProcessError(f"{name}: no dask scheduler answers ({_short(error)}); {ways}") from None


def _demand_certificates(name: str) -> None:
    """Check that dask's configuration names an authority, and a certificate with its key."""
    from distributed import Security

    security = Security()
    for file in (security.tls_ca_file, security.tls_client_cert, security.tls_client_key):
        is_path = file and "\n" not in file  # a certificate may also be given as text
        if is_path and not os.path.exists(file):
            raise ProcessError(f"{name}: certificate {file} does not exist; {CERTIFICATES}")
    try:
        context = security.get_connection_args("client").get("ssl_context")
    except (OSError, ValueError) as error:
        reason = f"a certificate cannot be read ({_short(error)})"
        raise ProcessError(f"{name}: {reason}; {CERTIFICATES}") from None
    if context is None:
        raise ProcessError(f"{name}: dask's configuration names no certificate; {CERTIFICATES}")


# ----------------------------------------------------------------------------------- the tasks


def tasks_of(runs: Runs, slots: int) -> list[Runs]:
    """Cut runs into tasks, of which every slot executes several in turn.

    Neighbours in the grid, which may train by one program, are in one task. The seeds of a
    configuration are in several tasks only where one task would be too large.

    Args:
      runs: the runs.
      slots: how many tasks are executed at a time.

    >>> tasks = tasks_of([("a", (0, 1)), ("b", (0, 1)), ("c", (0,))], slots=1)
    >>> [[(cell, len(seeds)) for cell, seeds in task] for task in tasks]
    [[('a', 2)], [('b', 2)], [('c', 1)]]
    """
    most = max(math.ceil(count_of(runs) / (TASKS_PER_SLOT * slots)), 1)
    tasks: list[Runs] = []
    for cell, seeds in runs:
        for first in range(0, len(seeds), most):
            piece = (cell, seeds[first : first + most])
            if tasks and count_of([*tasks[-1], piece]) <= most:
                tasks[-1].append(piece)
            else:
                tasks.append([piece])
    return tasks


def _in_words(task: Runs) -> str:
    """The configurations and seeds of a task, in words."""
    cell, seeds = task[0]
    if len(task) > 1:
        last_cell, _ = task[-1]
        return f"{label_of(cell.key_columns)} to {label_of(last_cell.key_columns)}"
    if len(seeds) > 1:
        return f"{label_of(cell.key_columns)}, seeds {min(seeds)} to {max(seeds)}"
    return f"{label_of(cell.key_columns)}, seed {min(seeds)}"


def _few(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    text = ", ".join(names[:MAX_LISTED])
    if len(names) > MAX_LISTED:
        text += f" and {len(names) - MAX_LISTED} more"
    return text


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
