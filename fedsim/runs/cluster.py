"""The runs of a comparison on the workers of a dask cluster, whose files come back as bytes.

A worker needs fedsim and what it needs, all of the same versions, and nothing else: it does not have to see the run
directory. What decides bits is compared before anything starts.
"""

import contextlib
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
from fedsim.runs.executor import Part, Run, runs_in, without_scenarios
from fedsim.runs.filenames import Layout, label_of
from fedsim.runs.remote import Folder, Order, compare_terms, folder_content, play
from fedsim.runs.terms import Terms

INSTALLATION = (
    "dask is not installed; pip install 'fedsim-jax[cluster]', or pip install 'dask[distributed]'"
)
CERTIFICATES = "set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ...__TLS__CLIENT__CERT and ...__TLS__CLIENT__KEY to its files"
PATIENCE = 10  # seconds that a scheduler has to answer, and a first worker to come
RETRIES = 2  # of runs whose process ends; where a worker is lost, dask's `allowed-failures` counts
PARTS = (
    4  # for each thread of the workers: few, since each is built anew, and enough to keep all busy
)
LOOK = 5  # seconds between two looks whether there are workers
ALONE = 60  # seconds without any worker after which no other is waited for
LISTED = 3  # configurations that a line names


class Cluster:
    """Workers of a cluster that can play the runs of a comparison; an `Executor`.

    Args:
      client: a `distributed.Client`.
      name: of the cluster in messages.
      terms: that every worker has to meet.
      layout: of the run directory, which the caller holds.

    Raises:
      ProcessError: when there is no worker, or one that does not meet the terms.
      LostError: when one is lost meanwhile.
    """

    def __init__(self, client: Any, name: str, terms: Terms, layout: Layout):
        self.client, self.name, self.terms, self.layout = client, name, terms, layout
        self.waiting: dict[Any, Part] = {}  # by future
        with contextlib.suppress(TimeoutError):
            client.wait_for_workers(1, timeout=PATIENCE)
        if not self.slots():
            raise ProcessError(
                f"{name}: the scheduler has no workers; start some: dask worker HOST:PORT --nthreads 1"
            )
        self._demand_same()

    def _demand_same(self) -> None:
        order = pickle.dumps(Order(self.terms, [], {}))
        answers = self.client.run(compare_terms, order, on_error="return")
        differing = [(worker, answers[worker]) for worker in sorted(answers) if answers[worker]]
        gone = [worker for worker, answer in differing if isinstance(answer, OSError)]
        if gone:
            raise LostError(f"{self.name}: worker {gone[0]} is gone ({_short(answers[gone[0]])})")
        if differing:
            worker, answer = differing[0]
            others = f" (and {len(differing) - 1} more workers)" if len(differing) > 1 else ""
            unable = (
                "" if isinstance(answer, str) else f"; every worker needs fedsim {__version__}"
            )  # to read the order
            raise ProcessError(f"{self.name}: worker {worker}{others}: {_short(answer)}{unable}")

    def slots(self) -> int:
        """Threads of all workers; none where the scheduler does not say."""
        with contextlib.suppress(OSError):
            return sum(self.client.nthreads().values())
        return 0

    def submit(self, runs: Part) -> None:
        """Order the runs in parts, each with what there is of it."""
        for part in parts_of(runs, max(self.slots(), 1)):
            begun = {run: folder_content(self.layout.folder(*run)) for run in runs_in(part)}
            order = pickle.dumps(Order(self.terms, without_scenarios(part), begun))
            with warnings.catch_warnings(action="ignore"):  # dask's, about large orders
                key = f"fedsim-{uuid.uuid4()}"
                future = self.client.submit(play, order, key=key, pure=False, retries=RETRIES)
            self.waiting[future] = part

    def as_ended(self, ask: Callable[[], bool]) -> Iterator[list[Run]]:
        """Runs as they end, with their files written; see `Executor`."""
        lost: dict[str, list[str]] = {}  # by reason
        heard = time.monotonic()  # of a worker
        while self.waiting:
            if ask():
                raise Interrupted(f"with {sum(map(_count, self.waiting.values()))} runs to go")
            done = [future for future in self.waiting if future.done()]
            for future in done:
                part = self.waiting.pop(future)
                if reason := self._received(future):
                    lost.setdefault(reason, []).append(_named(part))
                yield runs_in(part)
            if time.monotonic() > heard + LOOK and self.slots():
                heard = time.monotonic()
            if time.monotonic() > heard + ALONE:
                lost["no worker is left"] = [_named(part) for part in self.waiting.values()]
                break
            time.sleep(0 if done else 0.1)
        if lost:
            reasons = (f"{reason}: {_few(parts)}" for reason, parts in lost.items())
            raise LostError(f"{self.name}: {'; '.join(reasons)}")

    def cancel(self) -> None:
        """Take back what has not ended."""
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self.client.cancel(list(self.waiting))

    def _received(self, future: Any) -> str:
        """Write the files of a part -> why there are none, if so."""
        if future.status in ("cancelled", "lost"):
            return "the scheduler is gone"
        if future.status == "error":
            return _short(future.exception())
        runs, failed = future.result()
        future.release()
        for run, folder in runs.items():
            if folder:
                _write(self.layout.folder(*run), folder)
        for label, reason in failed.items():
            warnings.warn(f"{label} failed on a worker ({reason}); trying it here", stacklevel=2)
        return ""


@contextlib.contextmanager
def connected(on: Any) -> Iterator[tuple[Any, str]]:
    """-> (a `distributed.Client`, its name in messages).

    Args:
      on: `dask://HOST:PORT` of a scheduler, `tls://HOST:PORT` of one that asks for certificates, which dask's own
        configuration names; or a client, which stays open.

    Raises:
      ProcessError: when there is no such scheduler, no dask here, or no certificate.
    """
    if not isinstance(on, str):
        yield on, "on"
        return
    name, form = (
        f"--on {on}",
        re.fullmatch(r"(dask|tls)://(\[[0-9A-Fa-f:.]+\]|[\w.-]+):([0-9]{1,5})/?", on),
    )
    if not form or not 0 < int(form[3]) < 65536:
        raise ProcessError(
            f"{name}: write dask://HOST:PORT or tls://HOST:PORT, the address of a dask scheduler"
        )
    protocol = "tls" if form[1] == "tls" else "tcp"
    client = _client(name, protocol, form[2], int(form[3]))
    try:
        yield client, name
    finally:
        client.close(timeout=PATIENCE)


def _client(name: str, protocol: str, host: str, port: int) -> Any:
    """A client of the scheduler there."""
    try:
        from dask import config

        config.set(
            {"logging": dict.fromkeys(("distributed", "distributed.client"), "critical")}
        )  # before its import
        from distributed import Client
    except ImportError:
        raise ProcessError(f"{name}: {INSTALLATION}") from None
    if protocol == "tls":
        _demand_certificates(name)
    try:
        socket.create_connection(
            (host.strip("[]"), port), PATIENCE
        ).close()  # dask would try for as long as it may
        return Client(f"{protocol}://{host}:{port}", timeout=PATIENCE, set_as_default=False)
    except Exception as error:
        ways = "start one there (dask scheduler), or correct the address"
        ways += " or the certificates" * (protocol == "tls")
        raise ProcessError(f"{name}: no dask scheduler answers ({_short(error)}); {ways}") from None


def _demand_certificates(name: str) -> None:
    """What dask's own configuration says of TLS: an authority, and a certificate of this client with its key."""
    from distributed import Security

    security = Security()
    named = (security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
    for file in filter(None, named):
        if "\n" not in file and not os.path.exists(file):  # else it is the text of one
            raise ProcessError(f"{name}: certificate {file} is not there; {CERTIFICATES}")
    try:
        context = security.get_connection_args("client").get("ssl_context")
    except (OSError, ValueError) as error:
        raise ProcessError(
            f"{name}: a certificate cannot be read ({_short(error)}); {CERTIFICATES}"
        ) from None
    if context is None:
        raise ProcessError(f"{name}: dask's configuration names no certificate; {CERTIFICATES}")


def parts_of(runs: Part, slots: int) -> list[Part]:
    """Runs in parts that are played one after another by each of the slots.

    Neighbours of the grid are together, which may train by one program; seeds of one configuration
    are apart only where a part would grow too large.

    >>> [[(c, len(s)) for c, s in part] for part in parts_of([("a", (0, 1)), ("b", (0, 1)), ("c", (0,))], slots=1)]
    [[('a', 2)], [('b', 2)], [('c', 1)]]
    """
    most = max(-(-_count(runs) // (PARTS * slots)), 1)
    parts: list[Part] = []
    for cell, seeds in runs:
        for first in range(0, len(seeds), most):
            one = (cell, seeds[first : first + most])
            if parts and _count(parts[-1]) + len(one[1]) <= most:
                parts[-1].append(one)
            else:
                parts.append([one])
    return parts


def _count(part: Part) -> int:
    """How many runs there are."""
    return sum(len(seeds) for _, seeds in part)


def _named(part: Part) -> str:
    """Configurations and seeds, in words."""
    (cell, seeds), (last, _) = part[0], part[-1]
    only = f", seeds {min(seeds)} to {max(seeds)}" if len(seeds) > 1 else f", seed {min(seeds)}"
    return f"{label_of(cell.who)}{only if len(part) == 1 else f' to {label_of(last.who)}'}"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:LISTED]) + (
        f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    )


def _write(folder: Path, content: Folder) -> None:
    """Put the files of a run in place, its commits last: what a commit names is there once the commit is."""
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
    return " ".join(str(error).split())[:300] or type(error).__name__
