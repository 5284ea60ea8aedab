"""The run directory: the process that holds it, its `run.json`, and its models."""

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import yaml
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from fedsim.disk import files
from fedsim.errors import DataError, DirectoryError, LockedError
from fedsim.runs.plain import demand_content, demand_plain
from fedsim.runs.record_form import malformed
from fedsim.sources.files import require_few_lists

RECORD = "run.json"
LOCK = ".lock"
LIVE = "live.html"  # written by whoever looks at a run that goes on, and no part of it
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
IN_FILES = {
    "stats": "state",
    "aux/probe": "aux/first",
}  # sections of a model file by their names in memory
TRACKED = (
    "tensorboard",
    "wandb",
    *(f"mlflow.db{end}" for end in ("", "-journal", "-wal", "-shm")),
)  # of trackers


@contextlib.contextmanager
def claimed(path: Path, force: bool, resume: bool) -> Iterator[dict[str, Any] | None]:
    """Hold a run directory for writing -> the record of the run that is to go on there, None for a new one.

    A directory that was made for this and in which nothing was begun is taken away again at the end.

    Raises:
      DirectoryError: when there is something that may not be replaced, or nothing can be written.
      LockedError: when another process holds it.
    """
    with files.naming(path):
        made = [p for p in (path, *path.parents) if not p.exists()]
    _admitted(path, force, resume)
    with contextlib.ExitStack() as stack:
        for folder in reversed(made):
            files.make_folder(folder)
            with files.naming(folder):
                stack.callback(_unmake, folder, os.open(folder, FOLDER))
        _lock(path, stack)
        record = _admitted(path, force, resume)
        yield record if resume else None


def _unmake(path: Path, folder: int) -> None:
    """Take a folder away again where nothing lies in it, and it is still the one that was made; its descriptor is closed."""
    try:
        with contextlib.suppress(OSError):  # the error that led here has been reported already
            if os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(folder)):
                os.rmdir(path)
    finally:
        os.close(folder)


def _admitted(path: Path, force: bool, resume: bool) -> dict[str, Any] | None:
    """The record of a directory that a run may be written into, as far as there is one; nothing is touched."""
    if path.exists() and not path.is_dir():
        raise DirectoryError(f"{path}: is not a directory; choose another --out")
    with files.naming(path):
        names = sorted(p.name for p in path.iterdir()) if path.is_dir() else []
    if RECORD in names and (force or resume):
        demand_plain(path)
    record = read_record(path) if RECORD in names else None
    if record is not None and force and resume:
        raise DirectoryError(
            f"{path}: --resume and --force at once; one goes on, the other starts anew"
        )
    started = [name for name in names if name != LOCK and not name.endswith(files.BESIDE)]
    if RECORD not in names and started and (force or resume):
        raise DirectoryError(
            f"{path}: holds no fedsim run ({started[0]} ...); choose another --out"
        )
    if started and not (force or resume):
        demand_free(path)
        ways = "use --resume to go on, --force to replace it, or --out for another place"
        raise DirectoryError(f"{path}: exists already; {ways}")
    if RECORD in names and not force and (record is None or malformed(record)):
        reason = f" ({malformed(record)[0]} is not what a run writes there)" if record else ""
        raise DirectoryError(f"{path / RECORD}: is damaged{reason}; --force starts anew")
    return record


def _lock(path: Path, stack: contextlib.ExitStack) -> None:
    """Lock a directory until `stack` closes, or the process ends: then the kernel frees it, however that may be.

    What is locked and freed is the directory that has this name now, not whatever has it later.
    """
    while True:
        with files.naming(path / LOCK):
            folder = os.open(path, FOLDER)
            stack.callback(os.close, folder)
            lock = os.open(
                LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666, dir_fd=folder
            )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(_holder(path, lock)) from None
        except OSError as error:
            os.close(lock)
            reason = f"cannot be locked ({error.strerror}); choose an --out on a local disk"
            raise DirectoryError(f"{path}: {reason}") from None
        with contextlib.suppress(FileNotFoundError):
            named = os.stat(LOCK, dir_fd=folder, follow_symlinks=False), os.stat(path)
            if all(map(os.path.samestat, named, (os.fstat(lock), os.fstat(folder)))):
                break
        os.close(lock)  # it was deleted between opening and locking, or the directory renamed
    claim = files.Claim(path=path, folder=folder, lock=lock, name=LOCK)
    stack.callback(os.close, lock)
    stack.callback(files.free, claim)
    files.CLAIMS.add(claim)
    stack.callback(files.CLAIMS.discard, claim)
    with files.naming(path / LOCK):
        holder = {"pid": os.getpid(), "host": _host(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps(holder).encode(), 0)


def in_use(path: Path) -> bool:
    """Whether a process is writing there."""
    try:
        demand_free(path)
    except LockedError:
        return True
    return False


def demand_free(path: Path) -> None:
    """Raises LockedError when a process is at work there; takes nothing."""
    with contextlib.suppress(FileNotFoundError):
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(_holder(path, os.dup(lock))) from None
        finally:
            os.close(lock)


def _holder(path: Path, lock: int) -> str:
    try:
        for _ in range(20):  # it may not have written yet who it is
            if os.fstat(lock).st_size:
                break
            time.sleep(0.01)
        holder = json.loads(os.pread(lock, 1000, 0))
        where = "this" if holder["host"] == _host() else "another"
        by = f"by process {int(holder['pid'])} on {where} machine since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        by = "by another process"
    finally:
        os.close(lock)
    return f"{path}: in use {by}; wait for it, or choose another --out"


def _host() -> str:
    """This machine, told apart from others and not named: a killed run leaves its lock behind."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]


def begin(path: Path, record: dict[str, Any], scenario: dict[str, Any], anew: bool) -> None:
    """Write record and scenario of a run that begins; `anew`: after deleting the one before it, its record last."""
    if anew:
        with files.naming(path):
            earlier = sorted(p for p in path.iterdir() if p.name not in (LOCK, RECORD))
        for old in earlier:
            files.remove(old)
        with files.naming(path):
            files.sync_folder(path)
        files.remove(path / RECORD)
    write_record(path, record)
    write_yaml(path / "scenario.yaml", scenario)


def read_record(path: Path) -> dict[str, Any] | None:
    """The `run.json` of a directory; None when it is not what was written."""
    try:
        if not (path / RECORD).is_file() and (path / RECORD).exists():
            raise DirectoryError(f"{path / RECORD}: is no regular file")
        content = (path / RECORD).read_bytes()
        require_few_lists(content)
        text = content.decode()
        record = json.loads(text)
        return record if _record_text(record) == text else None
    except DirectoryError:
        raise
    except FileNotFoundError:
        raise DirectoryError(f"{path}: holds no fedsim run") from None
    except OSError as error:
        raise DirectoryError(f"{path / RECORD}: {error.strerror}") from None
    except (DataError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def sound_record(path: Path) -> dict[str, Any]:
    """The `run.json` of a directory that may be a stranger's: nothing there leads elsewhere, and every entry has its form.

    Raises:
      DirectoryError: when it is not so, or there is none.
    """
    demand_plain(path)
    record = read_record(path)
    if record is None:
        reason = "its SHA-256 does not fit"
    elif entries := malformed(record):
        reason = f"{entries[0]} is not what a run writes there"
    else:
        return record
    raise DirectoryError(
        f"{path / RECORD}: is damaged ({reason}); fedsim verify says what is wrong"
    )


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write `run.json`, with a hash over itself."""
    files.write(path / RECORD, _record_text(json.loads(json.dumps(record, default=str))))


def _record_text(record: dict[str, Any]) -> str:
    """The one text that a record has."""
    body = {name: value for name, value in record.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps({**body, "sha256": digest}, indent=2) + "\n"


def hashes(path: Path, apart: Collection[str] = ()) -> dict[str, str]:
    """SHA-256 of every file of a run but record, lock and live page, by relative name.

    Args:
      path: of the run directory.
      apart: names at its top that are none of the run's.
    """
    with files.naming(path):
        names = [str(p.relative_to(path)) for p in sorted(path.rglob("*")) if p.is_file()]
    files_of_run = [
        name for name in names if name not in (RECORD, LOCK) and not name.startswith(LIVE)
    ]
    hashed = [name for name in files_of_run if name.partition("/")[0] not in apart]
    return {name: files.sha256(path / name) for name in hashed}


def write_yaml(path: Path, values: Any) -> None:
    """Readable YAML in the given order."""
    files.write(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def write_model(path: Path, variables: Any) -> None:
    """Shared variables as safetensors, one tensor per leaf, named by its path (`params/layer0/W`)."""
    leaves = jax.tree_util.tree_leaves_with_path(variables)
    files.write(
        path, safetensors.save({_slashed(p): np.asarray(leaf, order="C") for p, leaf in leaves})
    )


def load_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a `model.*.safetensors` of a run directory back.

    Args:
      path: of the file.

    Returns:
      Nested dictionaries of NumPy arrays: `["params"]["layer0"]["W"]`, and `["state"]` where the model keeps one.

    Raises:
      DirectoryError: for a file that holds no such thing; nothing in it is ever executed.
    """
    nested: dict[str, Any] = {}
    for name, array in _tensors(Path(path)).items():
        *above, last = name.split("/")
        section = nested
        for part in above:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise DirectoryError(f"{path}: is no model: {name!a} lies inside another tensor")
        section[last] = array
    return nested


def _tensors(path: Path) -> dict[str, np.ndarray]:
    if path.exists() and not path.is_file():
        raise DirectoryError(f"{path}: is no regular file")
    if path.exists():
        demand_content(path, path.stat().st_size)
    try:
        return safetensors.load_file(path)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DirectoryError(f"{path}: is no model: {ascii(str(error))[1:-1][:200]}") from None


def _slashed(path: tuple) -> str:
    """The name of a tensor in a file; two sections keep the names that files have had from the start."""
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    section = next((code for code in IN_FILES if name == code or name.startswith(f"{code}/")), "")
    return IN_FILES[section] + name.removeprefix(section) if section else name
