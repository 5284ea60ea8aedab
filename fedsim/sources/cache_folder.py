"""The folder of the user's cache that holds data that were read: what lies there, how much it may be, and its removal."""

import contextlib
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from fedsim.errors import DeviceError

VARIABLE = "FEDSIM_CACHE_MB"  # environment variable: how much may be kept
DEFAULT_MB = 4096
SUMS = "SHA256SUMS"  # a set's list of its files; without it, a set is not whole
UNFINISHED = ".writing-"  # begins the name of a set that is being written
ABANDONED_SECONDS = 86_400  # after which whoever wrote it was killed
SET = re.compile(r"\d+-[a-z0-9_]+-[0-9a-f]{64}[-\w]*", re.ASCII)
PART = re.compile(
    rf"{re.escape(UNFINISHED)}\w+|tmp\w{{8}}", re.ASCII
)  # the latter of earlier versions
FILE = re.compile(rf"\w+\.npy|{SUMS}(\.tmp)?|names", re.ASCII)  # the last one of earlier versions


class Kept(NamedTuple):
    """A set in the folder, whole or not.

    Attributes:
      path: of its own folder.
      bytes: of its files.
      used: when it was last read or written, in seconds since 1970.
      whole: whether it was written to its end.
    """

    path: Path
    bytes: int
    used: float
    whole: bool


def place() -> Path:
    """The folder; it may not be there yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedsim" / "data"


def most_bytes() -> int:
    """How much may be kept; 0: nothing.

    Raises:
      DeviceError: for an environment variable that is no number of megabytes.
    """
    written = os.environ.get(VARIABLE, str(DEFAULT_MB))
    if not re.fullmatch(r"[0-9]{1,9}", written):
        problem = f"should be a whole number of megabytes, found {ascii(written)[:80]}"
        raise DeviceError(
            f"environment variable {VARIABLE}: {problem}; correct it, or unset it for {DEFAULT_MB}"
        )
    return int(written) * 1_000_000


def kept_sets() -> list[Kept]:
    """What lies in the folder and was written by fedsim, the least recently used first."""
    sets = []
    with contextlib.suppress(OSError):
        for folder in os.scandir(place()):
            known = SET.fullmatch(folder.name) or PART.fullmatch(folder.name)
            if known and folder.is_dir(follow_symlinks=False):
                sets += _kept(Path(folder.path))
    return sorted(sets, key=lambda kept: kept.used)


def counted(sets: list[Kept]) -> str:
    """`3 sets`."""
    return "1 set" if len(sets) == 1 else f"{len(sets)} sets"


def mark_used(folder: Path) -> None:
    """A set was read: it is the last to go."""
    with contextlib.suppress(OSError):
        os.utime(folder)


def make_room(spared: Path) -> None:
    """Remove what was abandoned half written, and the least recently used sets, until all that is left may be kept.

    Args:
      spared: a set that stays.
    """
    sets = kept_sets()
    total = sum(kept.bytes for kept in sets)
    for kept in sets:
        abandoned = not kept.whole and time.time() - kept.used > ABANDONED_SECONDS
        too_much = kept.whole and total > most_bytes()
        if kept.path != spared and (abandoned or too_much):
            remove_set(kept.path)
            total -= kept.bytes


def clear() -> list[Kept]:
    """Remove all sets, and nothing that fedsim has not written -> what was removed."""
    sets = kept_sets()
    for kept in sets:
        remove_set(kept.path)
    return sets


def remove_set(folder: Path) -> None:
    """Delete a set: first the list of its files, without which nobody reads it; other files in its folder stay."""
    with contextlib.suppress(OSError):
        (folder / SUMS).unlink(missing_ok=True)
        for name in os.listdir(folder):
            if FILE.fullmatch(name):
                (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def _kept(folder: Path) -> list[Kept]:
    """The set in a folder; none where another process removes it meanwhile."""
    try:
        size = sum(file.stat(follow_symlinks=False).st_size for file in os.scandir(folder))
        return [Kept(folder, size, folder.stat().st_mtime, SET.fullmatch(folder.name) is not None)]
    except OSError:
        return []
