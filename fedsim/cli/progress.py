"""How far a run or a comparison has come, on stderr: a bar on a terminal, elsewhere a line now and then."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from fedsim.build import Experiment
from fedsim.engine.run import Row
from fedsim.runs.filenames import label_of
from fedsim.scenario import Scenario

SHOWN = {
    "test_accuracy": "accuracy",
    "test_r2": "R²",
    "test_loss": "test loss",
    "train_loss": "train loss",
}  # beside the bar
QUIET = 30.0  # seconds between two lines where there is no terminal
NARROW = 12  # characters of the bar, where a terminal has no more than WIDTH
WIDTH = 100


class Count:
    """The `watch` of `fedsim.run` and `fedsim.compare`: rounds of all runs, and where they are in words.

    It only counts rows that are there anyway, and never makes the device wait.

    Args:
      scenario: whose rounds are counted.
      show: called with what is to be shown after every change: rounds done, rounds in all, words.
    """

    def __init__(self, scenario: Scenario, show: Callable[[int, int, str], None]):
        self.spec, self.show = scenario.spec, show
        self.rounds, self.over = max(self.spec.rounds, 1), 0
        self.runs, self.at = len(self.spec.seeds), dict[tuple[int, int], int]()  # rounds of the runs that go on
        self.cells: dict[str, int] = {}  # of a comparison: labels, and their numbers from 1
        self.going: dict[tuple[int, int], str] = {}  # labels of the runs that go on
        self.label = ""

    def begin(self, runs: int, cells: Mapping[str, int]) -> None:
        """It is a comparison with so many runs, of these configurations."""
        self.runs, self.cells = runs, dict(cells)
        self._told("compiling")

    def enters(self, who: Mapping[str, Any]) -> None:
        """The next row is of this configuration."""
        self.label = label_of(who)

    def ended(self, runs: int) -> None:
        """So many runs more are over, wherever they ran."""
        self.over += runs
        self._told(f"{self.over} of {self.runs} runs ended")

    def __call__(self, experiment: Experiment, seed: int, row: Row) -> None:
        values, run = row.values, (id(experiment), seed)
        self.at[run], self.going[run] = values["round"], self.label
        self._told(self._words(row) if values["round"] else f"{self._where()}compiling")
        if row.status != "running":
            self.over += 1
            del self.at[run], self.going[run]

    def _told(self, words: str) -> None:
        self.show(self.rounds * self.over + sum(self.at.values()), self.rounds * self.runs, words)

    def _words(self, row: Row) -> str:
        """What matters most first: a narrow terminal cuts the end."""
        values, timing = row.values, row.timing
        working = max(timing["wall_seconds"] - timing["compile_seconds"], 1e-9)
        parts = [f"{words} {values[name]:.4f}" for name, words in SHOWN.items() if values.get(name) is not None]
        parts += [f"{values['round'] / working:.1f} rounds/s"]
        return self._where() + "  ".join(parts)

    def _where(self) -> str:
        """Configuration and round of a comparison, or runs of several seeds."""
        least = min(self.at.values(), default=0)
        if self.cells:
            going = sorted({(self.cells.get(label, 0), label) for label in self.going.values()})
            label = going[0][1] if going else self.label
            beside = f" and {len(going) - 1} more" if len(going) > 1 else ""
            numbers = _numbered([number for number, _ in going], len(self.cells))
            return f"{numbers} {label}{beside}: round {least}/{self.spec.rounds}  "
        if self.runs > 1:
            going = len(self.at)
            numbers = f"run {self.over + 1}" if going == 1 else f"runs {self.over + 1} to {self.over + going}"
            return f"{numbers} of {self.runs}: round {least}/{self.spec.rounds}  "
        return ""


def _numbered(numbers: list[int], of: int) -> str:
    """The configurations that are under way.

    >>> _numbered([3], 12), _numbered([3, 6], 12), _numbered([3, 4, 6, 9], 12)
    ('[3/12]', '[3+6/12]', '[3..9/12]')
    """
    listed = "+".join(map(str, numbers)) if len(numbers) < 4 else f"{numbers[0]}..{numbers[-1]}"
    return f"[{listed or 0}/{of}]"


@contextlib.contextmanager
def progress(scenario: Scenario, quiet: bool) -> Iterator[Count | None]:
    """A bar on stderr where that is a terminal, a line every half minute where it is none, nothing where nobody asked."""
    console = Console(stderr=True)
    if quiet:
        yield None
    elif console.is_terminal:
        with bar(console, scenario.spec.name, scenario.spec.rounds * len(scenario.spec.seeds)) as show:
            yield Count(scenario, show)
    else:
        lines = Lines(scenario.spec.name, lambda line: click.echo(line, err=True))
        yield Count(scenario, lines)
        lines.close()


@contextlib.contextmanager
def bar(console: Console, name: str, total: int) -> Iterator[Callable[[int, int, str], None]]:
    """Bar, count and time left, whole whatever the width; the words behind them are cut."""
    wide = console.width > WIDTH
    rest = TextColumn(
        "{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"), markup=False
    )
    parts = (BarColumn(40 if wide else NARROW), MofNCompleteColumn(), TimeRemainingColumn(compact=not wide), rest)
    with Progress(*parts, console=console, transient=True, expand=True) as shown:
        task = shown.add_task(f"{name}: compiling", total=total)

        def show(done: int, total: int, words: str) -> None:
            shown.update(task, completed=done, total=total, description=words)

        yield show


class Lines:
    """Progress as lines, at most one every QUIET seconds; a run that is over sooner prints none.

    Args:
      name: of the scenario.
      say: prints a line.
      clock: seconds.
    """

    def __init__(self, name: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic):
        self.name, self.say, self.clock = name, say, clock
        self.began = self.last = clock()
        self.shown, self.newest = False, ""

    def __call__(self, done: int, total: int, words: str) -> None:
        time = self.clock()
        left = (total - done) * (time - self.began) / done if done else None
        about = f", about {_duration(left)} left" if left else ""
        self.newest = f"fedsim: {self.name}: {done}/{total} rounds{about}  {words}"
        if time - self.last >= QUIET:
            self.last, self.shown = time, True
            self.say(self.newest)

    def close(self) -> None:
        """It is over: the last line, where there were others."""
        if self.shown:
            self.say(f"{self.newest}; {_duration(self.clock() - self.began)} in all")


def _duration(seconds: float) -> str:
    """A time in words.

    >>> _duration(42), _duration(600), _duration(10_000)
    ('42 s', '10 min', '2 h 47 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
