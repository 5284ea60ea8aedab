"""How long runs will still take: the pace of their last rounds, and compilation apart from it.

The seconds of a run are its share of the seconds of the process, so that those of runs side by side
add up to the time that passes.
"""

import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedsim.runs.execute import Configuration, EndedRun

WINDOW = 10  # rows of a run over which its pace is measured

# Seconds of compiling per second of work beyond which rounds do not have their usual pace.
COMPILING = 0.1


class Point(NamedTuple):
    """A run at one of its rows: the round, and the seconds worked and compiled by then."""

    round: int
    working: float
    compiling: float


class TimeLeft:
    """An estimate of the seconds that runs will still take.

    Args:
      configurations: label -> what is run.
      processes: the number of processes that do runs side by side.
      clock: returns seconds.
    """

    def __init__(
        self,
        configurations: Mapping[str, Configuration],
        processes: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.configurations = configurations
        self.processes = processes
        self.clock = clock

        # Label -> rounds that are left, of all runs of the configuration.
        self.rounds_left: dict[str, int] = {}
        for label, configuration in configurations.items():
            self.rounds_left[label] = configuration.rounds * configuration.runs

        self.paces: dict[str, float] = {}  # label -> seconds per round
        self.compiled: dict[object, float] = {}  # program -> seconds that it took to compile
        self.points: dict[tuple[str, object], deque[Point]] = {}  # of the runs in progress
        self.updated = clock()

    def starts(self, label: str, run: object, point: Point) -> None:
        """A run resumes from its last commit, at this point."""
        self.points[label, run] = deque([point], maxlen=WINDOW)
        self._subtract(label, point.round)

    def row(self, label: str, run: object, point: Point, last: bool) -> None:
        """A run has written a row, perhaps its last one."""
        points = self.points.setdefault((label, run), deque(maxlen=WINDOW))
        before = Point(round=0, working=point.working, compiling=0.0)
        if points:
            before = points[-1]
        points.append(point)
        _drop_compiling(points)
        self._subtract(label, point.round - before.round)
        self._add_compiled(label, point.compiling - before.compiling)

        first = points[0]
        rounds = point.round - first.round
        if rounds > 0:
            self.paces[label] = max(point.working - first.working, 0.0) / rounds
        if last:
            self.finished(label, run)

    def finished(self, label: str, run: object) -> None:
        """A run has ended, after however many rounds."""
        last = self.points.pop((label, run))[-1]
        self._subtract(label, self.configurations[label].rounds - last.round)

    def ended(self, run: EndedRun) -> None:
        """A run that another process did has ended."""
        self._subtract(run.label, self.configurations[run.label].rounds)
        if run.rounds:
            self.paces[run.label] = max(run.wall_seconds - run.compile_seconds, 0.0) / run.rounds
            self._add_compiled(run.label, run.compile_seconds)

    def seconds(self) -> float | None:
        """Return the seconds that are left; None as long as no pace is known."""
        if not self.paces:
            return None
        training = sum(left * self._pace(label) for label, left in self.rounds_left.items() if left)
        left = (training + self._compiling()) / self.processes
        return max(left - (self.clock() - self.updated), 0.0)

    def _subtract(self, label: str, rounds: int) -> None:
        self.rounds_left[label] = max(self.rounds_left[label] - rounds, 0)
        self.updated = self.clock()

    def _add_compiled(self, label: str, seconds: float) -> None:
        program = self.configurations[label].program
        self.compiled[program] = self.compiled.get(program, 0.0) + max(seconds, 0.0)

    def _pace(self, label: str) -> float:
        """Return the seconds per round of a configuration.

        If they are not known, they are the mean over those with the same program, or over all.
        """
        if label in self.paces:
            return self.paces[label]
        program = self.configurations[label].program
        same_program: list[float] = []
        for other, pace in self.paces.items():
            if self.configurations[other].program == program:
                same_program.append(pace)
        return statistics.fmean(same_program or self.paces.values())

    def _compiling(self) -> float:
        """Return the seconds that programs will take that are not compiled yet, each once."""
        if not self.compiled:
            return 0.0
        programs = {self.configurations[name].program for name, n in self.rounds_left.items() if n}
        new_programs = programs - self.compiled.keys()
        return len(new_programs) * statistics.fmean(self.compiled.values())


def _drop_compiling(points: deque[Point]) -> None:
    """Drop the rows up to the last one that compiled, as soon as a row without it follows."""
    for i in range(len(points) - 2, 0, -1):
        working = points[i].working - points[i - 1].working
        compiling = points[i].compiling - points[i - 1].compiling
        if compiling > COMPILING * working:
            for _ in range(i):
                points.popleft()
            return


def in_words(seconds: float) -> str:
    """Return a time in words.

    >>> in_words(42), in_words(600), in_words(10_000)
    ('42 s', '10 min', '2 h 47 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def on_a_clock(seconds: float | None) -> str:
    """Return a time in few characters, of the same width below ten hours.

    >>> on_a_clock(None), on_a_clock(42), on_a_clock(600), on_a_clock(10_000)
    ('-:--:--', '0:00:42', '0:10:00', '2:46:40')
    """
    if seconds is None:
        return "-:--:--"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
