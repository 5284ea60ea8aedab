"""Files that are whole or absent: the only place that writes into a run directory (and needs nothing but Python)."""

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

WRITING = (
    threading.RLock()
)  # held while a file is half written: whoever ends the process from outside waits for it
BESIDE = ".tmp"  # ending of a file that is not whole yet


class Claim(NamedTuple):
    """A directory that this process has locked: open, so that it stays the same one whatever it is renamed to.

    Attributes:
      path: its name when it was locked.
      folder: descriptor of the directory.
      lock: descriptor of the lock's file, which lies in it.
      name: of that file.
    """

    path: Path
    folder: int
    lock: int
    name: str


CLAIMS: set[Claim] = set()  # of this process; whoever ends it from outside frees them


def free(claim: Claim) -> None:
    """Delete the file of a lock, in whatever its directory is called by now; a lock of somebody else stays."""
    with contextlib.suppress(OSError):
        lock = os.stat(claim.name, dir_fd=claim.folder, follow_symlinks=False)
        if os.path.samestat(lock, os.fstat(claim.lock)):
            os.unlink(claim.name, dir_fd=claim.folder)


def demand_claim(path: Path) -> None:
    """Check before a file is written or deleted that its directory is still the one that was locked under that name.

    Raises:
      DirectoryError: when that was renamed or replaced, so that another run may lie there by now.
    """
    for claim in tuple(CLAIMS):
        if claim.path in path.parents:
            try:
                same = os.path.samestat(os.stat(claim.path), os.fstat(claim.folder))
            except FileNotFoundError:
                same = False
            if not same:
                reason = "was renamed or replaced while this run wrote there"
                raise DirectoryError(
                    f"{claim.path}: {reason}; go on where it is now: --out PLACE --resume"
                )


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An error of the system as one line that names the place and, where it matters, the room left.

    Raises:
      DirectoryError: instead of any other `OSError`.
    """
    try:
        yield
    except DirectoryError:
        raise
    except OSError as error:
        named = (
            isinstance(error.filename, str | Path) and str(error.filename) != path.name
        )  # else: in a descriptor
        where = error.filename if named else path
        raise DirectoryError(f"{where}: {error.strerror or error}{_room(path)}") from error


def write(path: Path, content: str | bytes | Iterable[bytes | memoryview]) -> str:
    """Write a file so that a reader sees all of it or none: another name, fsync, rename, fsync of the folder.

    Returns:
      SHA-256 of what was written.

    Raises:
      DirectoryError: when it cannot be written; the file is then as it was before.
    """
    pieces = (
        [content.encode()]
        if isinstance(content, str)
        else [content]
        if isinstance(content, bytes)
        else content
    )
    beside, digest = path.with_name(path.name + BESIDE), hashlib.sha256()
    with WRITING, naming(path):
        demand_claim(path)
        try:
            file = os.open(
                beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
            )
            try:
                for piece in pieces:
                    digest.update(piece)
                    _all(file, piece)
                os.fsync(file)
            finally:
                os.close(file)
            os.replace(beside, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        sync_folder(path.parent)
    return digest.hexdigest()


def write_named(path: Path, content: str | bytes) -> None:
    """Write a file that the user has named: whole or as it was before; links are followed, pipes and devices written to.

    Raises:
      DirectoryError: when it cannot be written.
    """
    place = Path(os.path.realpath(path))
    with naming(path):
        if not place.exists() or stat.S_ISREG(place.stat().st_mode):
            write(place, content)
        else:
            place.write_bytes(content.encode() if isinstance(content, str) else content)


def append(path: Path, at: int, data: bytes | bytearray) -> None:
    """Put data at a place of a file, cut off whatever lay beyond it, and wait until it is on the disk."""
    with WRITING, naming(path):
        demand_claim(path)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            os.ftruncate(file, at)
            os.lseek(file, at, os.SEEK_SET)
            _all(file, data)
            os.fsync(file)
        finally:
            os.close(file)


def remove(path: Path) -> None:
    """Delete a file or a folder that may be gone already."""
    with WRITING, naming(path):
        demand_claim(path)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, on the disk."""
    with naming(path):
        above = [p.parent for p in (path, *path.parents) if not p.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in above:
            sync_folder(folder)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def sha256(path: Path) -> str:
    """SHA-256 of a file."""
    with naming(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def demand_room(path: Path, needed: int) -> None:
    """Check before anything is computed that so many bytes may be written.

    Raises:
      DirectoryError: when there is less room.
    """
    with naming(path):
        free = shutil.disk_usage(path).free
    if free < needed:
        sizes = f"{_mb(free)} free, this run may need {_mb(needed)}"
        raise DirectoryError(f"{path}: {sizes}; free some, or choose another --out")


def _all(file: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of it, however little the system takes at a time."""
    view = memoryview(data)
    while len(view):
        view = view[os.write(file, view) :]


def _room(path: Path) -> str:
    """How much is free where a path lies, in brackets."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            return f" ({_mb(shutil.disk_usage(place).free)} free there)"
    return ""


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size:.0f} bytes"
