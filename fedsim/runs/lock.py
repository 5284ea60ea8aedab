"""The lock of a folder: one process at a time writes there."""

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from fedsim.disk import files
from fedsim.errors import DirectoryError, LockedError

LOCK = ".lock"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # how a folder is opened


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Lock a folder while something is written there; every command that writes a folder does so.

    It is made if there is none, and removed at the end if it is empty then.
    """
    if path.exists() and not path.is_dir():
        raise DirectoryError(f"{path}: is not a directory; choose another --out")
    with files.reporting_os_errors(path):
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    with contextlib.ExitStack() as stack:
        for folder in reversed(missing):
            files.make_folder(folder)
            with files.reporting_os_errors(folder):
                stack.callback(_remove_if_empty, folder, os.open(folder, FOLDER))
        lock(path, stack)
        yield


def _remove_if_empty(path: Path, descriptor: int) -> None:
    """Remove a folder if it is empty and still the one that was made; close its descriptor."""
    try:
        with contextlib.suppress(OSError):  # the error that led here has been reported already
            if os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor)):
                os.rmdir(path)
    finally:
        os.close(descriptor)


def lock(path: Path, stack: contextlib.ExitStack) -> None:
    """Lock a directory until `stack` closes or the process ends, when the kernel frees it.

    What is locked and freed is the directory that has this name now, not whatever has it later.

    Raises:
      LockedError: when another process holds the lock.
    """
    while True:
        with files.reporting_os_errors(path / LOCK):
            folder = os.open(path, FOLDER)
            stack.callback(os.close, folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            file = os.open(LOCK, flags, 0o666, dir_fd=folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(_holder(path, file)) from None
        except OSError as error:
            os.close(file)
            reason = f"cannot be locked ({error.strerror}); choose an --out on a local disk"
            raise DirectoryError(f"{path}: {reason}") from None
        if _is_still_there(path, folder, file):
            break
        os.close(file)

    claim = files.Claim(path=path, folder=folder, lock=file, name=LOCK)
    stack.callback(os.close, file)
    stack.callback(files.release, claim)
    files.CLAIMS.add(claim)
    stack.callback(files.CLAIMS.discard, claim)
    with files.reporting_os_errors(path / LOCK):
        holder = {"pid": os.getpid(), "host": _host(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(holder).encode(), 0)


def _is_still_there(path: Path, folder: int, file: int) -> bool:
    """Whether lock and directory still have their names.

    Between opening and locking, the lock may have been deleted or the directory renamed.
    """
    with contextlib.suppress(FileNotFoundError):
        lock_now = os.stat(LOCK, dir_fd=folder, follow_symlinks=False)
        folder_now = os.stat(path)
        if os.path.samestat(lock_now, os.fstat(file)):
            return os.path.samestat(folder_now, os.fstat(folder))
    return False


def in_use(path: Path) -> bool:
    """Whether a process is writing in a directory."""
    try:
        demand_free(path)
    except LockedError:
        return True
    return False


def demand_free(path: Path) -> None:
    """Check that no process is writing in a directory, without locking it.

    Raises:
      LockedError: when one is.
    """
    with contextlib.suppress(FileNotFoundError):
        file = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(_holder(path, os.dup(file))) from None
        finally:
            os.close(file)


def _holder(path: Path, file: int) -> str:
    """The message that names who holds a lock, whose descriptor is closed."""
    try:
        for _ in range(20):  # the process may not have written its name yet
            if os.fstat(file).st_size:
                break
            time.sleep(0.01)
        holder = json.loads(os.pread(file, 1000, 0))
        where = "this" if holder["host"] == _host() else "another"
        by = f"by process {int(holder['pid'])} on {where} machine since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        by = "by another process"
    finally:
        os.close(file)
    return f"{path}: in use {by}; wait for it, or choose another --out"


def _host() -> str:
    """A hash that distinguishes this machine without naming it: a killed run leaves its lock."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]
