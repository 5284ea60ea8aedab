"""Bounds on time and memory inside which a stranger's file, or an extreme number, is opened."""

import contextlib
import re
import resource
import signal
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """What hangs is ended."""

    def end(*_):
        raise TimeoutError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def confined(space: int) -> Iterator[None]:
    """Limit the address space beyond what is mapped now, so that a bad allocation is an error."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (bytes_in_status("VmSize") + space, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def peak() -> int:
    """The most bytes held since `forget_peak`."""
    return bytes_in_status("VmHWM")


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def bytes_in_status(name: str) -> int:
    """A size that the kernel reports of this process."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{name}:\s*(\d+)", status)[1]) * 1024
