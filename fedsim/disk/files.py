"""Files that are complete or absent; everything in a run directory is written here.

Needs only Python's standard library.
"""

import contextlib
import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from fedsim.errors import DirectoryError

# Held while a file is incomplete: a signal handler that ends the process waits for it.
WRITING = threading.RLock()
UNFINISHED_SUFFIX = ".tmp"


class Claim(NamedTuple):
    """A directory that this process has locked; it is open, so that renaming does not change it.

    Attributes:
      path: its path when it was locked.
      folder: the descriptor of the directory.
      lock: the descriptor of the lock file, which is in the directory.
    """

    path: Path
    folder: int
    lock: int
    name: str


CLAIMS: set[Claim] = set()  # of this process; a signal handler that ends it releases them


def release(claim: Claim) -> None:
    """Delete a lock file, whatever its directory is called by now; another process's lock stays."""
    with contextlib.suppress(OSError):
        lock = os.stat(claim.name, dir_fd=claim.folder, follow_symlinks=False)
        if os.path.samestat(lock, os.fstat(claim.lock)):
            os.unlink(claim.name, dir_fd=claim.folder)


def require_claim(path: Path) -> None:
    """Check, before a file is changed, that its directory is still the one that was locked."""
    for claim in tuple(CLAIMS):
        if claim.path not in path.parents:
            continue
        try:
            same = os.path.samestat(os.stat(claim.path), os.fstat(claim.folder))
        except FileNotFoundError:
            same = False
        if not same:
            problem = "was renamed or replaced while this run wrote there"
            remedy = "resume it where it is now: --out PATH --resume"
            raise DirectoryError(f"{claim.path}: {problem}; {remedy}")


@contextlib.contextmanager
def reporting_os_errors(path: Path) -> Iterator[None]:
    """Turn errors of the system into one line with the path and the free space.

    Raises:
      DirectoryError: instead of any other `OSError`.
    """
    try:
        yield
    except DirectoryError:
        raise
    except OSError as error:
        where = path
        # The name of the path itself was given relative to a descriptor.
        if isinstance(error.filename, str | Path) and str(error.filename) != path.name:
            where = error.filename
        reason = error.strerror or error
        raise DirectoryError(f"{where}: {reason}{_free_space(path)}") from error


def write(path: Path, content: str | bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file so that readers see all of it or none.

    It is written under another name, synced and renamed; then its folder is synced.

    Raises:
      DirectoryError: when it cannot be written; the file is as before then.
    """
    parts = _parts(content)
    unfinished = path.with_name(path.name + UNFINISHED_SUFFIX)
    with WRITING, reporting_os_errors(path):
        require_claim(path)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            file = os.open(unfinished, flags, 0o666)
            try:
                for part in parts:
                    _write_all(file, part)
                os.fsync(file)
            finally:
                os.close(file)
            os.replace(unfinished, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise
        sync_folder(path.parent)


def publish(path: Path, content: str | bytes) -> None:
    """Write a file that other processes may be writing, too: its draft has a name of its own."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    write(draft, content)
    with reporting_os_errors(path):
        os.replace(draft, path)


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file whose path the user gave: links are followed, pipes and devices written to.

    A regular file is complete afterwards, or as before.
    """
    target = Path(os.path.realpath(path))
    with reporting_os_errors(path):
        if not target.exists() or stat.S_ISREG(target.stat().st_mode):
            publish(target, content)
        else:
            target.write_bytes(content.encode() if isinstance(content, str) else content)


def append(path: Path, offset: int, data: bytes | bytearray) -> None:
    """Write data at an offset of a file durably; anything beyond the offset is cut off before."""
    with WRITING, reporting_os_errors(path):
        require_claim(path)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            os.ftruncate(file, offset)
            os.lseek(file, offset, os.SEEK_SET)
            _write_all(file, data)
            os.fsync(file)
        finally:
            os.close(file)


def remove(path: Path) -> None:
    """Delete a file or a folder, if it exists."""
    with WRITING, reporting_os_errors(path):
        require_claim(path)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder and its parents durably."""
    with reporting_os_errors(path):
        parents = [folder.parent for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for parent in parents:
            sync_folder(parent)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with reporting_os_errors(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_space(path: Path, needed: int) -> None:
    """Check, before anything is computed, that there is space for that many bytes."""
    with reporting_os_errors(path):
        free = shutil.disk_usage(path).free
    if free < needed:
        sizes = f"{readable_size(free)} free, this run may need {readable_size(needed)}"
        raise DirectoryError(f"{path}: {sizes}; free some space, or choose another --out")


def _parts(content: str | bytes | Iterable[bytes | memoryview]) -> Iterable[bytes | memoryview]:
    if isinstance(content, str):
        return [content.encode()]
    if isinstance(content, bytes):
        return [content]
    return content


def _write_all(file: int, data: bytes | bytearray | memoryview) -> None:
    """Write all data, however little the system accepts at a time."""
    remaining = memoryview(data)
    while len(remaining):
        written = os.write(file, remaining)
        remaining = remaining[written:]


def _free_space(path: Path) -> str:
    """The free space at a path, in brackets; empty if it is unknown."""
    for folder in (path, *path.parents):
        with contextlib.suppress(OSError):
            return f" ({readable_size(shutil.disk_usage(folder).free)} free there)"
    return ""


def readable_size(size: float) -> str:
    """Bytes in words.

    >>> readable_size(999), readable_size(12_345_678)
    ('999 bytes', '12.3 MB')
    """
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size:.0f} bytes"
