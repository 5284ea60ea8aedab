"""Seconds of a piece of work, measured several times."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

TRIALS = 5

# Called with what is measured next.
Announce = Callable[[str], None]


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds that some work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the range of several measurements."""
    return {"seconds": statistics.median(seconds), "least": min(seconds), "most": max(seconds)}
