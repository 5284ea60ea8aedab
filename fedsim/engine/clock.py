"""Seconds spent compiling, as JAX reports them."""

import functools
import threading
import time
from collections import deque

import jax

# Only spans that end at about the same time can overlap, so older ones are dropped. Otherwise a
# process that trains for weeks would keep two numbers for every program that it ever compiled.
REMEMBERED = 1_000


class Spans:
    """Spans of time whose overlaps count once.

    Threads compile side by side, and a trace may contain other traces.

    Attributes:
      total: seconds that the spans cover.
    """

    def __init__(self) -> None:
        self.total = 0.0
        self.recent: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        self.lock = threading.Lock()

    def add(self, begin: float, end: float) -> None:
        """Add a span that has just ended."""
        with self.lock:
            # Written once at the end: another thread that reads it meanwhile never sees it shrink.
            total = self.total

            # Merge the spans that overlap with this one.
            while self.recent and self.recent[-1][1] > begin:
                first, last = self.recent.pop()
                total -= last - first
                begin = min(begin, first)
                end = max(end, last)

            self.recent.append((begin, end))
            self.total = total + end - begin


@functools.cache
def _compile_spans() -> Spans:
    """Return the spans of this process, filled by a listener that is registered once."""
    spans = Spans()

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith("/jax/core/compile/"):  # tracing, lowering, and XLA itself
            end = time.perf_counter()
            spans.add(end - duration_secs, end)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return spans


def compile_seconds() -> float:
    """Return the seconds that this process has compiled since the first call (which returns 0)."""
    return _compile_spans().total
