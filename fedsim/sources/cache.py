"""Arrays that take long to read, cached in the user's cache folder by the hash of their files.

A set of arrays is a folder with a file for each array, and `SHA256SUMS`, which `sha256sum -c`
accepts. It is written under another name, synced and then renamed, so that it is complete or
absent; what is read from it is verified.
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
    cache_path,
    make_room,
    mark_used,
    max_bytes,
    remove_set,
)
from fedsim.sources.files import sha256_of
from fedsim.sources.mapped import MIN_MAPPED_BYTES

VERSION = 2  # of the contents; sets of other versions are made again
LINE = re.compile(r"([0-9a-f]{64})  (\w+)\.npy", re.ASCII)
NamedArrays = dict[str, np.ndarray]
FileState = tuple[int, ...]  # changes whenever the file does

# Large files that this process has hashed: their state then, and their SHA-256.
_hashed: dict[Path, tuple[FileState, str]] = {}


def cached(key: str, make: Callable[[], NamedArrays]) -> NamedArrays:
    """Return the arrays that `make` returns, which is called once for a key.

    Large arrays stay in their files. A damaged set is made again, with a warning.

    Args:
      key: identifies the arrays: the SHA-256 of everything they are made from.
      make: makes the arrays, none of which holds objects.
    """
    if not max_bytes():
        return make()
    folder = cache_path() / f"{VERSION}-{key}"
    try:
        stored = _load(folder)
    except DataError as error:
        warnings.warn(f"{folder}: {error}; the data files are read again", stacklevel=2)
        stored = None
    if stored is not None:
        mark_used(folder)
        return stored

    arrays = make()
    try:
        _store(folder, arrays)
        return _load(folder) or arrays
    except (OSError, DataError):  # the cache is optional
        return arrays


def _load(folder: Path) -> NamedArrays | None:
    """The arrays of a set; None where there is none, or it cannot be read.

    Raises:
      DataError: for a damaged set.
    """
    try:
        sums = _parse_sums(folder.name, (folder / SUMS).read_bytes())
        return {name: _load_array(folder / f"{name}.npy", digest) for name, digest in sums.items()}
    except OSError:
        return None


def _load_array(path: Path, digest: str) -> np.ndarray:
    """An array of a set: in memory, or mapped where it is large.

    Raises:
      DataError: for a damaged file.
    """
    if path.stat().st_size >= MIN_MAPPED_BYTES:
        _require_equal(path, _sha256_once(path), digest)
        return np.load(path, mmap_mode="r", allow_pickle=False)
    content = path.read_bytes()
    _require_equal(path, hashlib.sha256(content).hexdigest(), digest)
    return np.load(io.BytesIO(content), allow_pickle=False)


def _require_equal(path: Path, actual: str, expected: str) -> None:
    if actual != expected:
        raise DataError(f"{path.name} is damaged")


def _sha256_once(path: Path) -> str:
    """SHA-256 of a file, which this process reads only once as long as the file does not change."""
    state = _state(path)
    known_state, digest = _hashed.get(path, (None, ""))
    if known_state != state:
        digest = sha256_of(path)
        _hashed[path] = (state, digest)
    return digest


def _state(path: Path) -> FileState:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _store(folder: Path, arrays: NamedArrays) -> None:
    """Write a set under another name, sync it, and rename it; a set that is too large is not."""
    if sum(values.nbytes for values in arrays.values()) > max_bytes():
        return
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder.parent))
    try:
        sums = {name: _write(unfinished / f"{name}.npy", arrays[name]) for name in arrays}
        files.write(unfinished / SUMS, _format_sums(folder.name, sums))
        _rename(unfinished, folder)
        files.sync_folder(folder.parent)
    finally:
        remove_set(unfinished)
    make_room(folder)


def _write(path: Path, values: np.ndarray) -> str:
    """Write an array durably -> SHA-256 of its file."""
    with open(path, "xb") as file:
        np.save(file, values, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return sha256_of(path)


def _rename(unfinished: Path, folder: Path) -> None:
    try:
        unfinished.rename(folder)
    except OSError:  # a damaged set is there, or another process was faster
        remove_set(folder)
        unfinished.rename(folder)


def _format_sums(title: str, sums: dict[str, str]) -> str:
    """The text of `SHA256SUMS`: a line for each array, and a hash of the title and these lines.

    Args:
      title: the name of the set's folder.
      sums: name of the array -> SHA-256 of its file.
    """
    lines = "".join(f"{digest}  {name}.npy\n" for name, digest in sums.items())
    seal = hashlib.sha256(f"{title}\n{lines}".encode()).hexdigest()
    return f"{lines}# {seal}\n"


def _parse_sums(title: str, content: bytes) -> dict[str, str]:
    """The inverse of `_format_sums`.

    Raises:
      DataError: for a damaged text.
    """
    sums = {}
    for line in content.decode("ascii", "replace").splitlines()[:-1]:
        match = LINE.fullmatch(line)
        if match is not None:
            sums[match[2]] = match[1]
    if _format_sums(title, sums).encode() != content:
        raise DataError(f"{SUMS} is damaged")
    return sums
