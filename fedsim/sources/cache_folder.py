"""The folder of the user's cache with data that were read: its sets, its limit, its removal."""

import contextlib
import os
import re
import time
from pathlib import Path

from fedsim.errors import DeviceError

VARIABLE = "FEDSIM_CACHE_MB"  # the environment variable that limits the cache
DEFAULT_MB = 4096
SUFFIX = ".npz"  # of a set
UNFINISHED = ".writing-"  # begins the name of a set that is being written
ABANDONED_SECONDS = 86_400  # after which the process that wrote a set must have been killed

SET = rf"\d+-[a-z0-9_]+-[0-9a-f]{{64}}[-\w]*{re.escape(SUFFIX)}"
NAME = re.compile(rf"{SET}|{re.escape(UNFINISHED)}\w+", re.ASCII)


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


def cached_sets() -> list[Path]:
    """Return the sets in the folder that fedsim wrote, finished or not, the oldest use first."""
    used = {}
    for path in cache_path().glob("*"):
        with contextlib.suppress(OSError):  # another process removes it meanwhile
            if NAME.fullmatch(path.name) and not path.is_symlink():
                used[path] = path.stat().st_mtime
    return sorted(used, key=lambda path: used[path])


def is_unfinished(path: Path) -> bool:
    """Return whether a set is being written, or was when its process was killed."""
    return path.name.startswith(UNFINISHED)


def bytes_of(sets: list[Path]) -> int:
    """Return the size of sets."""
    total = 0
    for path in sets:
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def counted(sets: list[Path]) -> str:
    """Return `3 sets`."""
    return "1 set" if len(sets) == 1 else f"{len(sets)} sets"


def make_room(spared: Path) -> None:
    """Remove abandoned sets, and the least recently used ones until the others may stay.

    Args:
      spared: a set that stays.
    """
    sets = cached_sets()
    total = bytes_of(sets)
    for path in sets:
        with contextlib.suppress(OSError):
            if is_unfinished(path):
                goes = time.time() - path.stat().st_mtime > ABANDONED_SECONDS
            else:
                goes = total > max_bytes()
            if goes and path != spared:
                total -= path.stat().st_size
                path.unlink()


def remove_set(path: Path) -> None:
    """Delete a set."""
    with contextlib.suppress(OSError):
        path.unlink()
