"""How much memory this process may hold, and the refusal of what needs more: counted from shapes, before it is allocated."""

import os
import re
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

MOST = 2**31 - 1  # what an integer of a scenario may be: counters and indices on the device are int32
GROUPS = Path("/sys/fs/cgroup")
SHOWN = 4  # parts that a refusal names


class TooLarge(MemoryError):
    """Something that does not fit into memory (exit code 8); one line with the numbers.

    Attributes:
      parts: bytes by purpose.
    """

    def __init__(self, parts: Mapping[str, int], most: int):
        self.parts = dict(parts)
        largest = sorted(self.parts.items(), key=lambda part: -part[1])[:SHOWN]
        named = ", ".join(f"{name.replace('_', ' ')} {megabytes(size)}" for name, size in largest if size >= 5e5)
        what = f"does not fit into memory: needs {megabytes(sum(self.parts.values()))} ({named})"
        super().__init__(f"{what}, and this process may hold {megabytes(most)}")


def megabytes(size: float) -> str:
    """Bytes as a reader takes them in.

    >>> megabytes(12_345_678), megabytes(10**24)
    ('12.3 MB', '1e+18 MB')
    """
    return f"{size / 1e6:,.1f} MB" if size < 1e15 else f"{size / 1e6:.3g} MB"


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


def demand_room(**parts: int) -> None:
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
            home, name = (GROUPS, "memory.max") if not controllers else (GROUPS / "memory", "memory.limit_in_bytes")
            own = home / group.lstrip("/")
            yield from (folder / name for folder in (own, *own.parents) if folder.is_relative_to(home))


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
