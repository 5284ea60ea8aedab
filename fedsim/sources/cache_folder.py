"""The folder of the user's cache with data that were read: its sets, its limit, its removal."""

import contextlib
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from fedsim.errors import DeviceError

VARIABLE = "FEDSIM_CACHE_MB"  # the environment variable that limits the cache
DEFAULT_MB = 4096
SUFFIX = ".npz"  # of a set
UNFINISHED = ".writing-"  # begins the name of a set that is being written
ABANDONED_SECONDS = 86_400  # after which the process that wrote a set must have been killed

SET_NAME = re.compile(rf"\d+-[a-z0-9_]+-[0-9a-f]{{64}}[-\w]*{re.escape(SUFFIX)}", re.ASCII)
UNFINISHED_NAME = re.compile(rf"{re.escape(UNFINISHED)}\w+", re.ASCII)


class CachedSet(NamedTuple):
    """A set in the folder, complete or not.

    Attributes:
      path: the set's file.
      bytes: its size.
      used: when it was last read or written, in seconds since 1970.
      complete: whether it was written to the end.
    """

    path: Path
    bytes: int
    used: float
    complete: bool


def cache_path() -> Path:
    """Return the folder; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedsim" / "data"


def max_bytes() -> int:
    """Return how many bytes may be cached; 0: nothing is.

    Raises:
      DeviceError: for an environment variable that is not a number of megabytes.
    """
    text = os.environ.get(VARIABLE, str(DEFAULT_MB))
    if not re.fullmatch(r"[0-9]{1,9}", text):
        problem = f"should be a whole number of megabytes, found {ascii(text)[:80]}"
        remedy = f"correct it, or unset it for {DEFAULT_MB}"
        raise DeviceError(f"environment variable {VARIABLE}: {problem}; {remedy}")
    return int(text) * 1_000_000


def cached_sets() -> list[CachedSet]:
    """Return the sets in the folder that fedsim wrote, the least recently used first."""
    sets = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(cache_path()):
            complete = SET_NAME.fullmatch(entry.name) is not None
            if entry.is_symlink() or not (complete or UNFINISHED_NAME.fullmatch(entry.name)):
                continue
            with contextlib.suppress(OSError):  # another process removes it meanwhile
                status = entry.stat()
                sets.append(CachedSet(Path(entry.path), status.st_size, status.st_mtime, complete))
    return sorted(sets, key=lambda cached_set: cached_set.used)


def counted(sets: list[CachedSet]) -> str:
    """Return `3 sets`."""
    return "1 set" if len(sets) == 1 else f"{len(sets)} sets"


def make_room(spared: Path) -> None:
    """Remove abandoned sets, and the least recently used ones until the others may stay.

    Args:
      spared: a set that stays.
    """
    sets = cached_sets()
    total = sum(cached_set.bytes for cached_set in sets)
    for cached_set in sets:
        age = time.time() - cached_set.used
        is_abandoned = not cached_set.complete and age > ABANDONED_SECONDS
        is_too_much = cached_set.complete and total > max_bytes()
        if cached_set.path != spared and (is_abandoned or is_too_much):
            remove_set(cached_set.path)
            total -= cached_set.bytes


def clear() -> list[CachedSet]:
    """Remove all sets, and nothing that fedsim did not write -> what was removed."""
    sets = cached_sets()
    for cached_set in sets:
        remove_set(cached_set.path)
    return sets


def remove_set(path: Path) -> None:
    """Delete a set."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
