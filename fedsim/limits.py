"""How much memory this process may hold, and the refusal of what needs more: counted from shapes, before it is allocated."""

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

from fedsim.errors import TooLarge

MOST = (
    2**31 - 1
)  # what an integer of a scenario may be: counters and indices on the device are int32
GROUPS = Path("/sys/fs/cgroup")


def memory_limit() -> int:
    """Bytes that this process may hold: of the machine, or less where its control group or `ulimit -v` says so."""
    sizes = [int(text) for path in _groups() if (text := _text(path).strip()).isdigit()]
    if total := re.search(r"MemTotal:\s*(\d+) kB", _text("/proc/meminfo")):
        sizes.append(int(total[1]) * 1024)
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if address_space != resource.RLIM_INFINITY:  # much of it is mapped and never held
        status = dict(re.findall(r"(VmSize|VmRSS):\s*(\d+) kB", _text("/proc/self/status")))
        spare = 1024 * (int(status.get("VmSize", 0)) - int(status.get("VmRSS", 0)))
        sizes.append(max(address_space - spare, 0))
    return min(sizes, default=1 << 62)


def require_memory(**parts: int) -> None:
    """Refuse what cannot be held.

    Args:
      parts: bytes by purpose; what is counted may be less than what will be held.

    Raises:
      TooLarge: when all of them together exceed `memory_limit`.
    """
    if sum(parts.values()) > (most := memory_limit()):
        raise TooLarge(parts, most)


def _groups() -> Iterator[Path]:
    """Where the limits of this process' control group and of those above it stand, in either version of the hierarchy."""
    for line in _text("/proc/self/cgroup").splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        if controllers in ("", "memory"):
            root, name = (
                (GROUPS, "memory.max")
                if not controllers
                else (GROUPS / "memory", "memory.limit_in_bytes")
            )
            path = root / group.lstrip("/")
            yield from (
                folder / name for folder in (path, *path.parents) if folder.is_relative_to(root)
            )


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
