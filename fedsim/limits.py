"""How much memory this process may hold, and the refusal of what needs more.

Bytes are counted from shapes, before anything is allocated.
"""

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le

from fedsim.errors import OutOfMemoryError

# The largest integer in a scenario: counters and indices on the device are int32.
MAX_INTEGER = 2**31 - 1

# Ranges in which numbers of privacy mean something, and accountants can count them: above the
# largest ε a message hides nothing, and under the largest noise nothing is left of an update.
LEAST_NOISE = 0.001  # of a noise multiplier that is not 0
MOST_NOISE = 1_000_000
Epsilon = Annotated[float, Ge(0.0001), Le(10_000)]
Delta = Annotated[float, Ge(1e-12), Le(0.5)]
NoiseMultiplier = Annotated[float, Ge(0), Le(MOST_NOISE)]

GROUPS = Path("/sys/fs/cgroup")
NO_LIMIT = 1 << 62


def memory_limit() -> int:
    """Return the bytes that this process may hold.

    It is the machine's memory, or less where the control group or `ulimit -v` says so.
    """
    limits = []
    for path in _group_files():
        text = _text(path).strip()
        if text.isdigit():  # else `max`, or no such file
            limits.append(int(text))

    total = re.search(r"MemTotal:\s*(\d+) kB", _text("/proc/meminfo"))
    if total:
        limits.append(int(total[1]) * 1024)
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))

    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if address_space != resource.RLIM_INFINITY:
        limits.append(max(address_space - _mapped_bytes(), 0))
    return min(limits, default=NO_LIMIT)


def require_memory(**parts: int) -> None:
    """Refuse what this process cannot hold.

    Args:
      parts: bytes by purpose; what is counted may be less than what will be held.

    Raises:
      OutOfMemoryError: when all of them together exceed `memory_limit`.
    """
    limit = memory_limit()
    if sum(parts.values()) > limit:
        raise OutOfMemoryError(parts, limit)


def _group_files() -> Iterator[Path]:
    """Files with the memory limits of this process' control group and of the groups above it."""
    for line in _text("/proc/self/cgroup").splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        if controllers == "":  # version 2 of the hierarchy
            root = GROUPS
            name = "memory.max"
        elif controllers == "memory":  # version 1
            root = GROUPS / "memory"
            name = "memory.limit_in_bytes"
        else:
            continue
        folder = root / group.lstrip("/")
        for folder_above in (folder, *folder.parents):
            if folder_above.is_relative_to(root):
                yield folder_above / name


def _mapped_bytes() -> int:
    """Address space that is mapped and not held, which a limit of address space counts as well."""
    status = dict(re.findall(r"(VmSize|VmRSS):\s*(\d+) kB", _text("/proc/self/status")))
    return 1024 * (int(status.get("VmSize", 0)) - int(status.get("VmRSS", 0)))


def _text(path: str | Path) -> str:
    """The text of a file; empty where it cannot be read."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""
