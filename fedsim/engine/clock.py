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


class Stopwatch:
    """The seconds of a run, those of earlier processes included; what compiling took is apart.

    Attributes:
      earlier: wall and compile seconds of earlier processes.
      seconds: those of this process up to the last row.
    """

    def __init__(self) -> None:
        self.earlier = (0.0, 0.0)
        self.seconds = (0.0, 0.0)
        self.share = 1.0

    def start(self, share: float) -> None:
        """Start the clock.

        Args:
          share: share of the process's time that the run counts.
        """
        self.started = (time.perf_counter(), compile_seconds())
        self.share = share

    def row(self, round: int, useful: float, lane_steps: float) -> dict[str, float]:
        """Return the line of `timing.csv`, and remember the time for the next one.

        Args:
          useful: lane steps that trained a client since the last row.
          lane_steps: all of them.
        """
        began, began_compiling = self.started
        wall = self.share * (time.perf_counter() - began)
        compiling = self.share * (compile_seconds() - began_compiling)

        last_wall, last_compiling = self.seconds
        working = wall - last_wall - (compiling - last_compiling)
        self.seconds = (wall, compiling)
        wall, compiling = self.total()
        return {
            "round": round,
            "wall_seconds": wall,
            "compile_seconds": compiling,
            "steps_per_second": useful / working if working > 0 else 0.0,
            "lane_efficiency": useful / lane_steps if lane_steps else 0.0,
            "local_steps": useful,
        }

    def total(self) -> list[float]:
        """Return wall and compile seconds of all processes."""
        return [before + now for before, now in zip(self.earlier, self.seconds, strict=True)]
