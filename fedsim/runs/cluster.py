"""The runs of a comparison on the workers of a dask cluster, whose files come back as bytes.

A worker needs fedsim and what it needs, all of the same versions, and nothing else: it does not have to see the run
directory. What decides bits is compared before anything starts.
"""

import contextlib
import os
import pickle
import platform
import re
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fedsim.build.data_files import DATA, PARTITION, data_file, section_at
from fedsim.disk import files
from fedsim.errors import Interrupted, LostError, ProcessError, ScenarioError
from fedsim.runs.environment import numerical
from fedsim.runs.filenames import folder_of, label_of
from fedsim.runs.journal import committed, number_of
from fedsim.runs.remote import Folder, Order, Terms, compare_terms, play
from fedsim.scenario.plugins import ENABLED, link_hash
from fedsim.sources import sha256_of_data
from fedsim.study.grid import Cell

INSTALLATION = "dask is not installed; pip install 'fedsim-jax[cluster]', or pip install 'dask[distributed]'"
PATIENCE = 10  # seconds that a scheduler has to answer, and a first worker to come
RETRIES = 2  # of runs whose process ends; runs whose worker is lost are tried as often as dask's `allowed-failures` says
PARTS = 4  # for each thread of the workers: few, since each is built anew, and enough to keep all busy
LISTED = 3  # configurations that a line names

Asked = list[tuple[Cell, tuple[int, ...]]]  # configurations, and the seeds of each


class Cluster:
    """Workers that can play the runs of a comparison.

    Args:
      client: a `distributed.Client`.
      name: of the cluster in messages.
      terms: that every worker has to meet.

    Raises:
      ProcessError: when there is no worker, or one that does not meet them.
    """

    def __init__(self, client: Any, name: str, terms: Terms):
        self.client, self.name, self.terms = client, name, terms
        with contextlib.suppress(Exception):  # which of the two kinds of time-out it is depends on dask's version
            client.wait_for_workers(1, timeout=PATIENCE)
        if not client.nthreads():
            raise ProcessError(f"{name}: the scheduler has no workers; start some: dask worker HOST:PORT --nthreads 1")
        self._demand_same()

    def _demand_same(self) -> None:
        order = pickle.dumps(Order(self.terms))
        try:
            found = self.client.run(compare_terms, order, on_error="return")
        except Exception as error:  # a worker that cannot even read what it is to do
            raise ProcessError(f"{self.name}: {_short(error)}; every worker needs this version of fedsim") from None
        differing = {worker: _short(text) for worker, text in found.items() if text}
        if differing:
            worker, text = sorted(differing.items())[0]
            others = f" (and {len(differing) - 1} more workers)" if len(differing) > 1 else ""
            raise ProcessError(f"{self.name}: worker {worker}{others}: {text}")

    def execute(
        self, cells: Sequence[Cell], path: Path, ask: Callable[[], bool], ended: Callable[[int], None] = lambda runs: None
    ) -> None:
        """Have all runs played that have not ended, and write their files; one that fails fails again for the caller.

        Args:
          cells: of the grid.
          path: of the run directory, which the caller holds.
          ask: whether to come to rest.
          ended: called with how many runs more have ended.

        Raises:
          Interrupted: when `ask` said so.
          LostError: when runs could not be played; all others have been by then.
        """
        open_ = [(cell, tuple(s for s in cell.scenario.spec.seeds if not _ended(path, cell, s))) for cell in cells]
        ended(sum(len(cell.scenario.spec.seeds) - len(seeds) for cell, seeds in open_))
        waiting = {self._submitted(part, path): part for part in parts_of(open_, self._slots())}
        lost: list[str] = []
        try:
            while waiting:
                if ask():
                    raise Interrupted(f"with {sum(map(_runs, waiting.values()))} runs on {self.name}")
                done = [future for future in waiting if future.done()]
                for future in done:
                    part = waiting.pop(future)
                    lost += self._received(future, part, path)
                    ended(_runs(part))
                time.sleep(0 if done else 0.1)
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                self.client.cancel(list(waiting))
        if lost:
            more = f"; and {len(lost) - LISTED} more" if len(lost) > LISTED else ""
            raise LostError(f"{self.name}: {'; '.join(lost[:LISTED])}{more}")

    def _slots(self) -> int:
        return sum(self.client.nthreads().values()) or 1

    def _submitted(self, part: Asked, path: Path) -> Any:
        begun = {
            (label_of(cell.who), seed): _files(folder_of(path, label_of(cell.who), seed)) for cell, seeds in part for seed in seeds
        }
        cells = tuple(cell._replace(scenario=None) for cell, _ in part)  # pyright: ignore (it is read anew)
        order = pickle.dumps(Order(self.terms, cells, begun))
        with warnings.catch_warnings(action="ignore"):  # dask's, about orders with large commits
            return self.client.submit(play, order, key=f"fedsim-{uuid.uuid4()}", pure=False, retries=RETRIES)

    def _received(self, future: Any, part: Asked, path: Path) -> list[str]:
        """Write the files of a part -> why it has none, if so."""
        labels = [f"{label_of(cell.who)}, seed{'s' * (len(seeds) > 1)} {_listed(seeds)}" for cell, seeds in part]
        who = labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
        if future.status in ("cancelled", "lost"):
            return [f"{who}: the scheduler is gone"]
        if future.status == "error":
            return [f"{who}: {_short(future.exception())}"]
        runs, failed = future.result()
        future.release()
        for (label, seed), folder in runs.items():
            if folder:
                _write(folder_of(path, label, seed), folder)
        for label, reason in failed.items():
            warnings.warn(f"{label} failed on a worker ({reason}); trying it here", stacklevel=2)
        return []


@contextlib.contextmanager
def connected(on: Any) -> Iterator[tuple[Any, str]]:
    """-> (a `distributed.Client`, its name in messages).

    Args:
      on: `dask://HOST:PORT` of a scheduler, or a client, which stays open.

    Raises:
      ProcessError: when there is no such scheduler, or no dask here.
    """
    if not isinstance(on, str):
        yield on, "on"
        return
    name, form = f"--on {on}", re.fullmatch(r"dask://(\[[0-9A-Fa-f:.]+\]|[\w.-]+):([0-9]{1,5})/?", on)
    if not form or not 0 < int(form[2]) < 65536:
        raise ProcessError(f"{name}: write dask://HOST:PORT, the address of a dask scheduler")
    client = _client(name, form[1], int(form[2]))
    try:
        yield client, name
    finally:
        client.close(timeout=PATIENCE)


def _client(name: str, host: str, port: int) -> Any:
    """A client of the scheduler there."""
    try:
        import dask

        dask.config.set({"logging": dict.fromkeys(("distributed", "distributed.client"), "critical")})  # before its import
        from distributed import Client
    except ImportError:
        raise ProcessError(f"{name}: {INSTALLATION}") from None
    try:
        socket.create_connection((host.strip("[]"), port), PATIENCE).close()  # dask would try for as long as it may
        return Client(f"tcp://{host}:{port}", timeout=PATIENCE, set_as_default=False)
    except Exception as error:
        ways = "start one there (dask scheduler), or correct the address"
        raise ProcessError(f"{name}: no dask scheduler answers ({_short(error)}); {ways}") from None


def terms_of(cells: Sequence[Cell], document: Any, record: dict[str, Any], device: str | None, devices: list) -> Terms:
    """What workers have to meet.

    Args:
      cells: of the grid.
      document: the scenario without its grid.
      record: of the comparison.
      device: as `devices_of` takes it.
      devices: that it chose.

    Raises:
      ProcessError: for a link that was defined where no worker can find it.
    """
    texts = tuple((plugin, Path(plugin).read_bytes() if _is_file(plugin) else None) for plugin in ENABLED)
    environment = environment_of(devices, list(record["own_links"]))
    read = {str(place): sha256_of_data(place) for place in dict.fromkeys(_data_files(cells))}
    return Terms(document, os.getcwd(), record["environment"]["threads"], device, texts, environment, read)


def environment_of(devices: list, links: Sequence[str]) -> dict[str, str]:
    """What decides bits here, beside a scenario: as text by name; of a user's own links the hash of their files."""
    hashes = {name: link_hash(*name.split(" ", 1)) for name in links}
    python = ".".join(platform.python_version_tuple()[:2])
    whole = {**numerical(devices), "python": python, **hashes}
    return {name: " ".join(map(str, v)) if isinstance(v, list) else str(v) for name, v in whole.items()}


def sha256_at(path: str) -> str:
    """Hash of a file or folder of data; empty where there is none."""
    return sha256_of_data(Path(path)) if os.path.exists(path) else ""


def parts_of(asked: Asked, slots: int) -> list[Asked]:
    """Runs in parts that are played one after another by each of the slots: neighbours of the grid together, which may train
    by one program; seeds of one configuration apart only where a part would grow too large.

    >>> [[(c, len(s)) for c, s in part] for part in parts_of([("a", (0, 1)), ("b", (0, 1)), ("c", (0,))], slots=1)]
    [[('a', 2)], [('b', 2)], [('c', 1)]]
    """
    most = max(-(-_runs(asked) // (PARTS * slots)), 1)
    parts: list[Asked] = []
    for cell, seeds in asked:
        for first in range(0, len(seeds), most):
            one = (cell, seeds[first : first + most])
            if parts and _runs(parts[-1]) + len(one[1]) <= most:
                parts[-1].append(one)
            else:
                parts.append([one])
    return parts


def _runs(part: Asked) -> int:
    return sum(len(seeds) for _, seeds in part)


def _listed(seeds: Sequence[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 2 else " and ".join(map(str, seeds))


def _ended(path: Path, cell: Cell, seed: int) -> bool:
    """Whether a run has come to its end."""
    done = committed(folder_of(path, label_of(cell.who), seed), cell.scenario.spec.rounds)
    return done is not None and done.status != "running"


def _data_files(cells: Sequence[Cell]) -> Iterator[Path]:
    """The files and folders that the configurations read; one that is missing makes its configuration fail, later."""
    for cell in cells:
        for place in (DATA, PARTITION):
            if isinstance(getattr(section_at(cell.scenario, place), "path", None), str):
                with contextlib.suppress(ScenarioError):
                    yield data_file(cell.scenario, place).absolute()


def _is_file(plugin: str) -> bool:
    return plugin.endswith(".py") or "/" in plugin


def _files(folder: Path) -> Folder:
    """What there is of a run."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.is_dir() else {}


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
