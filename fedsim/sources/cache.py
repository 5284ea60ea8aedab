"""Arrays that take long to read, cached in the user's cache folder by the hash of their files.

A set of arrays is an archive of NumPy's. It is written under another name, synced and then renamed,
so that it is complete or absent; its checksums are verified when it is read.
"""

import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.archive import arrays_in
from fedsim.sources.arrays import Arrays
from fedsim.sources.cache_folder import SUFFIX, UNFINISHED, cache_path, make_room, max_bytes
from fedsim.sources.files import sound

VERSION = 3  # of the contents; sets of other versions are made again
NamedArrays = dict[str, np.ndarray]


def cached(key: str, make: Callable[[], NamedArrays]) -> NamedArrays:
    """Return the arrays that `make` returns, which is called once for a key.

    Large arrays stay in their file. A damaged set is made again, with a warning.

    Args:
      key: identifies the arrays: the SHA-256 of everything they are made from.
      make: makes the arrays, none of which holds objects.
    """
    if not max_bytes():
        return make()
    path = cache_path() / f"{VERSION}-{key}{SUFFIX}"
    try:
        arrays = _load(path)
        os.utime(path)  # the most recently used
        return arrays
    except DataError as error:
        warnings.warn(f"{path}: {error}; the data files are read again", stacklevel=2)
    except OSError:  # there is none
        pass

    arrays = make()
    try:
        _store(path, arrays)
        return _load(path)
    except (OSError, DataError):  # the cache is optional
        return arrays


def cached_samples(key: str, make: Callable[[], NamedArrays]) -> Arrays:
    """Return the samples whose fields are the arrays that `make` returns, as `cached` does."""
    fields: dict[str, Any] = dict(cached(key, make))
    for name in ("scale", "vocabulary"):
        if name in fields:
            fields[name] = fields[name].item()
    if "labels" in fields:
        fields["labels"] = fields["labels"].tolist()
    return Arrays(**fields)


def _load(path: Path) -> NamedArrays:
    """The arrays of a set.

    Raises:
      DataError: for a damaged set.
      OSError: where there is none.
    """
    with open(path, "rb") as file:
        with sound("set"), zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise DataError(f"{damaged} is damaged")
        return arrays_in(file)


def _store(path: Path, arrays: NamedArrays) -> None:
    """Write a set under another name, sync it, and rename it; a set that is too large is not."""
    if sum(values.nbytes for values in arrays.values()) > max_bytes():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(prefix=UNFINISHED, dir=path.parent)
    unfinished = Path(name)
    try:
        with open(descriptor, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    make_room(path)
