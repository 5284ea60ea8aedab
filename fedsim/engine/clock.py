"""Seconds spent compiling, as JAX reports them."""

import functools
import threading
import time
from collections import deque

import jax

# Only stretches that end at about the same time can overlap, so older ones may be forgotten: a process that trains
# for weeks would otherwise keep two numbers for every program that it ever compiled.
REMEMBERED = 1_000


class Spans:
    """Stretches of time, of which what lies in several counts once: threads compile side by side, and a trace in a trace."""

    def __init__(self) -> None:
        self.total = 0.0
        self.known: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        self.lock = threading.Lock()

    def add(self, begin: float, end: float) -> None:
        """A stretch that has just ended."""
        with self.lock:
            total = self.total  # whoever reads it meanwhile never finds it smaller than before
            while self.known and self.known[-1][1] > begin:
                first, last = self.known.pop()
                total, begin, end = total - (last - first), min(begin, first), max(end, last)
            self.known.append((begin, end))
            self.total = total + end - begin


@functools.cache
def _spent() -> Spans:
    """Of this process, kept by a listener that is registered once."""
    spans = Spans()

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith("/jax/core/compile/"):  # tracing, lowering, and XLA itself
            now = time.perf_counter()
            spans.add(now - duration_secs, now)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return spans


def compile_seconds() -> float:
    """Seconds in which this process has compiled since the first call (0 then)."""
    return _spent().total
