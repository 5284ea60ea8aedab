"""What was read once and took long, kept in the user's cache folder: arrays, by the SHA-256 of the files they came from.

A set of arrays is a folder with a file for each of them, and `SHA256SUMS`, which `sha256sum -c` checks too. It is written
aside, brought to the disk and then renamed, so that it is whole or not there; what is read is checked, so that it is what
was written.
"""

import hashlib
import io
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedsim.disk import files
from fedsim.errors import DataError
from fedsim.sources.cache_folder import (
    SUMS,
    UNFINISHED,
    make_room,
    mark_used,
    most_bytes,
    place,
    remove_set,
)
from fedsim.sources.files import sha256_of
from fedsim.sources.mapped import STAYS_BYTES

FORM = 2  # of what is kept; another one is made again
LINE = re.compile(r"([0-9a-f]{64})  (\w+)\.npy", re.ASCII)
Made = dict[str, np.ndarray]
State = tuple[int, ...]  # of a file, by which a change shows

_sound: dict[
    Path, tuple[State, str]
] = {}  # large files that this process has hashed: their SHA-256 then


def cached(key: str, make: Callable[[], Made]) -> Made:
    """The arrays that `make` gives, made once for a key; large ones stay in their files.

    What is kept and is no longer what was written is made again, with a warning.

    Args:
      key: names the arrays: the SHA-256 of all that they are made from.
      make: gives them, none of which holds objects.
    """
    if not most_bytes():
        return make()
    folder = place() / f"{FORM}-{key}"
    try:
        known = _kept(folder)
    except DataError as error:
        warnings.warn(f"{folder}: {error}; the data files are read again", stacklevel=2)
        known = None
    if known is not None:
        mark_used(folder)
        return known
    made = make()
    try:
        _keep(folder, made)
        return _kept(folder) or made
    except (OSError, DataError):  # a cache is a convenience
        return made


def _kept(folder: Path) -> Made | None:
    """The arrays of a set; None where there is none, or it cannot be read.

    Raises:
      DataError: for one that is not what was written.
    """
    try:
        sums = _sums(folder.name, (folder / SUMS).read_bytes())
        return {name: _array(folder / f"{name}.npy", digest) for name, digest in sums.items()}
    except OSError:
        return None


def _sums(title: str, content: bytes) -> dict[str, str]:
    """Name -> SHA-256 of every array of a set, from its list, whose last line seals the others.

    Raises:
      DataError: for a list that is not what was written.
    """
    lines = content.decode("ascii", "replace").splitlines()
    matches = [LINE.fullmatch(line) for line in lines[:-1]]
    sums = {match[2]: match[1] for match in matches if match is not None}
    if _list_of(title, sums).encode() != content:
        raise DataError(f"{SUMS} is damaged")
    return sums


def _list_of(title: str, sums: dict[str, str]) -> str:
    """The text of a list."""
    lines = "".join(f"{digest}  {name}.npy\n" for name, digest in sums.items())
    seal = hashlib.sha256(f"{title}\n{lines}".encode()).hexdigest()
    return f"{lines}# {seal}\n"


def _array(path: Path, digest: str) -> np.ndarray:
    """An array of a set: in memory, or in its file where it is large.

    Raises:
      DataError: where it is not what was written.
    """
    if path.stat().st_size < STAYS_BYTES:
        content = path.read_bytes()
        _require_equal(path, hashlib.sha256(content).hexdigest(), digest)
        return np.load(io.BytesIO(content), allow_pickle=False)
    _require_equal(path, _sha256_once(path), digest)
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _require_equal(path: Path, actual: str, expected: str) -> None:
    if actual != expected:
        raise DataError(f"{path.name} is damaged")


def _sha256_once(path: Path) -> str:
    """SHA-256 of a file, which this process reads only once as long as nobody writes into it."""
    known = _sound.get(path)
    state = _state(path)
    if known is not None and known[0] == state:
        return known[1]
    _sound[path] = state, sha256_of(path)
    return _sound[path][1]


def _state(path: Path) -> State:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _keep(folder: Path, arrays: Made) -> None:
    """Write a set beside its place, bring it to the disk, and move it there as a whole; one that is too large is not kept."""
    if sum(values.nbytes for values in arrays.values()) > most_bytes():
        return
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder.parent))
    try:
        sums = {name: _written(aside / f"{name}.npy", values) for name, values in arrays.items()}
        files.write(aside / SUMS, _list_of(folder.name, sums))
        _put(aside, folder)
        files.sync_folder(folder.parent)
    finally:
        remove_set(aside)
    make_room(folder)


def _written(path: Path, values: np.ndarray) -> str:
    """An array in a file, on the disk -> its SHA-256."""
    with open(path, "xb") as file:
        np.save(file, values, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return sha256_of(path)


def _put(aside: Path, folder: Path) -> None:
    """Rename a set to its place."""
    try:
        aside.rename(folder)
    except OSError:  # a damaged one is there, or another process was faster
        remove_set(folder)
        aside.rename(folder)
