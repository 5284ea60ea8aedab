"""The memory limit is the lowest of the machine's, the process's and its control groups'."""

import pytest
from hostile.confinement import confined

from fedsim import limits
from fedsim.errors import OutOfMemoryError
from fedsim.limits import memory_limit, require_memory
from fedsim.machine import memory_now


def test_the_memory_limit_is_at_most_that_of_the_machine():
    whole = memory_limit()
    assert 1 << 28 < whole < 1 << 50
    with confined(1 << 29):
        assert memory_limit() < min(whole, memory_now() + (2 << 29))
    said = r"needs 1e\+24 MB \(a 1e\+24 MB\), and this process may hold"
    with pytest.raises(OutOfMemoryError, match=said):
        require_memory(a=10**30, b=3)


def test_the_limits_of_a_control_group_and_its_parents_count(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal:  16000000 kB\n",
        "/sys/fs/cgroup/a/memory.max": "4000000000\n",
    }
    files |= {"/sys/fs/cgroup/a/b/memory.max": "max\n", "/proc/self/cgroup": "0::/a/b\n"}
    monkeypatch.setattr(limits, "_text", lambda path: files.get(str(path), ""))
    assert memory_limit() == 4_000_000_000
    files["/proc/self/cgroup"] = "9:cpu:/c\n4:memory:/c\n0::/\n"
    assert memory_limit() == 16_384_000_000
    files["/sys/fs/cgroup/memory/c/memory.limit_in_bytes"] = "3000000000"
    assert memory_limit() == 3_000_000_000
