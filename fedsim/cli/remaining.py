"""How long runs will still take: from the pace of their last rounds, and what is left to compile apart from it.

The seconds of a run are its share of those of the process, so that those of runs side by side add up to what passes.
"""

import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedsim.runs.execute import Configuration, Ended

WINDOW = 10  # rows of a run, over which its pace is taken
COMPILED = 0.1  # seconds compiling for one working: beyond it rounds are not at their pace yet


class Point(NamedTuple):
    """Where a run was at one of its rows: the round, and the seconds that it had worked and compiled by then."""

    round: int
    working: float
    compiling: float


class Remaining:
    """The seconds that runs will still take.

    Args:
      configurations: what is run, by label.
      processes: that play runs side by side.
      clock: seconds.
    """

    def __init__(
        self,
        configurations: Mapping[str, Configuration],
        processes: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.configurations, self.processes, self.clock = configurations, processes, clock
        self.left = {
            label: one.rounds * one.runs for label, one in configurations.items()
        }  # rounds
        self.paces: dict[str, float] = {}  # seconds a round, by label
        self.compiled: dict[object, float] = {}  # seconds, by program
        self.points: dict[tuple[str, object], deque[Point]] = {}  # of the runs that go on
        self.heard = clock()

    def starts(self, label: str, run: object, at: Point) -> None:
        """A run goes on from its last commit, at which it was here."""
        self.points[label, run] = deque([at], maxlen=WINDOW)
        self._done(label, at.round)

    def row(self, label: str, run: object, at: Point, last: bool) -> None:
        """A row of a run; `last`: with which it ends."""
        points = self.points.setdefault((label, run), deque(maxlen=WINDOW))
        before = points[-1] if points else Point(round=0, working=at.working, compiling=0.0)
        points.append(at)
        _drop_compiling(points)
        self._done(label, at.round - before.round)
        self._compiled(label, at.compiling - before.compiling)
        rounds = at.round - points[0].round
        if rounds > 0:
            self.paces[label] = max(at.working - points[0].working, 0.0) / rounds
        if last:
            self.finished(label, run)

    def finished(self, label: str, run: object) -> None:
        """A run has ended, after however many rounds."""
        last = self.points.pop((label, run))[-1]
        self._done(label, self.configurations[label].rounds - last.round)

    def ended(self, run: Ended) -> None:
        """A run has ended that was played elsewhere."""
        self._done(run.label, self.configurations[run.label].rounds)
        if run.rounds:
            self.paces[run.label] = max(run.wall_seconds - run.compile_seconds, 0.0) / run.rounds
            self._compiled(run.label, run.compile_seconds)

    def seconds(self) -> float | None:
        """What is left; None as long as no pace is known."""
        if not self.paces:
            return None
        rounds = sum(left * self._pace(label) for label, left in self.left.items() if left)
        left = (rounds + self._compiling()) / self.processes
        return max(left - (self.clock() - self.heard), 0.0)

    def _done(self, label: str, rounds: int) -> None:
        self.left[label] = max(self.left[label] - rounds, 0)
        self.heard = self.clock()

    def _compiled(self, label: str, seconds: float) -> None:
        program = self.configurations[label].program
        self.compiled[program] = self.compiled.get(program, 0.0) + max(seconds, 0.0)

    def _pace(self, label: str) -> float:
        """Seconds that a round of a configuration takes: its own, else that of those with the same program, or of all."""
        if label in self.paces:
            return self.paces[label]
        program = self.configurations[label].program
        alike = [
            pace
            for other, pace in self.paces.items()
            if self.configurations[other].program == program
        ]
        return statistics.fmean(alike or self.paces.values())

    def _compiling(self) -> float:
        """Seconds that programs will take of which no run has begun, each once."""
        waiting = {self.configurations[label].program for label, left in self.left.items() if left}
        fresh = waiting - self.compiled.keys()
        return len(fresh) * statistics.fmean(self.compiled.values()) if self.compiled else 0.0


def _drop_compiling(points: deque[Point]) -> None:
    """Drop what lies before the last row in whose rounds was compiled, as soon as there is one without behind it."""
    for i in range(len(points) - 2, 0, -1):
        working = points[i].working - points[i - 1].working
        if points[i].compiling - points[i - 1].compiling > COMPILED * working:
            for _ in range(i):
                points.popleft()
            return


def in_words(seconds: float) -> str:
    """A time in words.

    >>> in_words(42), in_words(600), in_words(10_000)
    ('42 s', '10 min', '2 h 47 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def on_a_clock(seconds: float | None) -> str:
    """A time in few characters, of one width below ten hours.

    >>> on_a_clock(None), on_a_clock(42), on_a_clock(600), on_a_clock(10_000)
    ('-:--:--', '0:00:42', '0:10:00', '2:46:40')
    """
    if seconds is None:
        return "-:--:--"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
