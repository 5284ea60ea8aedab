"""Seconds of a piece of work, measured several times."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
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


def in_turn(
    trials: Mapping[str, Callable[[], float]],
    times: int = TRIALS,
    max_seconds: float = math.inf,
) -> dict[str, dict[str, float]]:
    """Return the spread of several trials, each of which returns its seconds.

    They are made in turn, so that what else the machine does hits all of them. After `max_seconds`
    there is no further turn.
    """
    seconds: dict[str, list[float]] = {name: [] for name in trials}
    begin = time.perf_counter()
    for turn in range(times):
        if turn > 0 and time.perf_counter() - begin > max_seconds:
            break
        for name, trial in trials.items():
            seconds[name].append(trial())
    return {name: spread(several) for name, several in seconds.items()}
