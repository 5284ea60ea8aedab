"""How far a run or a comparison has come, on stderr: a bar on a terminal, elsewhere a line now and then."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from fedsim.assemble import Experiment
from fedsim.cli.remaining import Point, Remaining, in_words, on_a_clock
from fedsim.engine.run import Row, Run
from fedsim.runs.execute import Configuration, Ended
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


Show = Callable[
    [int, int, str, float | None], None
]  # rounds done, rounds in all, words, seconds left as far as known


class Count:
    """The `watch` of `fedsim.run` and `fedsim.compare`: rounds of all runs, how long they will still take, and where they
    are in words.

    It only counts rows that are there anyway, and never makes the device wait.

    Args:
      scenario: whose rounds are counted.
      show: called with what is to be shown after every change.
      clock: seconds.
    """

    def __init__(self, scenario: Scenario, show: Show, clock: Callable[[], float] = time.monotonic):
        self.spec, self.show, self.clock = scenario.spec, show, clock
        self.rounds, self.over = max(self.spec.rounds, 1), 0
        self.runs, self.at = (
            len(self.spec.seeds),
            dict[tuple[int, int], int](),
        )  # rounds of the runs that go on
        self.cells: Mapping[str, Configuration] = {}  # of a comparison: by label
        self.going: dict[tuple[int, int], str] = {}  # labels of the runs that go on
        self.label = ""
        self.elsewhere = False  # whether the runs are played by others, and only read here
        alone = Configuration(number=1, runs=self.runs, rounds=self.spec.rounds, program=None)
        self.remaining = Remaining({"": alone}, clock=clock)

    def begin(self, cells: Mapping[str, Configuration], processes: int) -> None:
        """It is a comparison of these configurations, played by so many processes."""
        self.cells = cells
        self.runs = sum(cell.runs for cell in cells.values())
        self.remaining = Remaining(cells, max(processes, 1), self.clock)
        self._told("compiling")

    def enters(self, who: Mapping[str, Any]) -> None:
        """What comes next is of this configuration."""
        self.label = label_of(who)

    def goes_on(self, experiment: Experiment, seed: int, run: Run) -> None:
        """A run begins, goes on from its last commit, or has ended before."""
        if self.elsewhere or run.round < 0:
            return
        key = (id(experiment), seed)
        wall, compiling = run.before
        self.remaining.starts(
            self._configuration(), key, Point(run.round, wall - compiling, compiling)
        )
        if run.status == "running":
            self.at[key], self.going[key] = run.round, self.label
        else:
            self.remaining.finished(self._configuration(), key)
            self.over += 1

    def ended(self, runs: Sequence[Ended]) -> None:
        """These runs are over, and were played elsewhere."""
        self.elsewhere = True
        self.over += len(runs)
        for run in runs:
            self.remaining.ended(run)
        self._told(f"{self.over} of {self.runs} runs ended")

    def __call__(self, experiment: Experiment, seed: int, row: Row) -> None:
        values, timing, run = row.values, row.timing, (id(experiment), seed)
        working = timing["wall_seconds"] - timing["compile_seconds"]
        point = Point(values["round"], working, timing["compile_seconds"])
        self.remaining.row(self._configuration(), run, point, last=row.status != "running")
        self.at[run], self.going[run] = values["round"], self.label
        self._told(self._words(row) if values["round"] else f"{self._where()}compiling")
        if row.status != "running":
            self.over += 1
            del self.at[run], self.going[run]

    def _configuration(self) -> str:
        """The label of what comes next; a single run has none."""
        return self.label if self.cells else ""

    def _told(self, words: str) -> None:
        done = self.rounds * self.over + sum(self.at.values())
        self.show(done, self.rounds * self.runs, words, self.remaining.seconds())

    def _words(self, row: Row) -> str:
        """What matters most first: a narrow terminal cuts the end."""
        values, timing = row.values, row.timing
        working = max(timing["wall_seconds"] - timing["compile_seconds"], 1e-9)
        parts = [
            f"{words} {values[name]:.4f}"
            for name, words in SHOWN.items()
            if values.get(name) is not None
        ]
        parts += [f"{values['round'] / working:.1f} rounds/s"]
        return self._where() + "  ".join(parts)

    def _where(self) -> str:
        """Configuration and round of a comparison, or runs of several seeds."""
        least = min(self.at.values(), default=0)
        if self.cells:
            going = sorted(
                {
                    (self.cells[label].number, label)
                    for label in self.going.values()
                    if label in self.cells
                }
            )
            label = going[0][1] if going else self.label
            beside = f" and {len(going) - 1} more" if len(going) > 1 else ""
            numbers = _numbered([number for number, _ in going], len(self.cells))
            return f"{numbers} {label}{beside}: round {least}/{self.spec.rounds}  "
        if self.runs > 1:
            going = len(self.at)
            numbers = (
                f"run {self.over + 1}"
                if going == 1
                else f"runs {self.over + 1} to {self.over + going}"
            )
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
        with bar(
            console, scenario.spec.name, scenario.spec.rounds * len(scenario.spec.seeds)
        ) as show:
            yield Count(scenario, show)
    else:
        lines = Lines(scenario.spec.name, lambda line: click.echo(line, err=True))
        yield Count(scenario, lines)
        lines.close()


class TimeLeft(ProgressColumn):
    """The time left as it was last estimated, counted down since."""

    def render(self, task: Task) -> Text:
        """Of the one task that there is; `estimated` holds the seconds left, and when that was known."""
        left, known = task.fields["estimated"]
        passed = time.monotonic() - known
        return Text(
            on_a_clock(None if left is None else max(left - passed, 0.0)),
            style="progress.remaining",
        )


@contextlib.contextmanager
def bar(console: Console, name: str, total: int) -> Iterator[Show]:
    """Bar, count and time left, whole whatever the width; the words behind them are cut."""
    wide = console.width > WIDTH
    rest = TextColumn(
        "{task.description}",
        table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        markup=False,
    )
    parts = (BarColumn(40 if wide else NARROW), MofNCompleteColumn(), TimeLeft(), rest)
    with Progress(*parts, console=console, transient=True, expand=True) as shown:
        task = shown.add_task(f"{name}: compiling", total=total, estimated=(None, 0.0))

        def show(done: int, total: int, words: str, left: float | None) -> None:
            estimated = (left, time.monotonic())
            shown.update(task, completed=done, total=total, description=words, estimated=estimated)

        yield show


class Lines:
    """Progress as lines, at most one every QUIET seconds; a run that is over sooner prints none.

    Args:
      name: of the scenario.
      say: prints a line.
      clock: seconds.
    """

    def __init__(
        self, name: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ):
        self.name, self.say, self.clock = name, say, clock
        self.began = self.last = clock()
        self.shown, self.newest = False, ""

    def __call__(self, done: int, total: int, words: str, left: float | None) -> None:
        time = self.clock()
        about = f", about {in_words(left)} left" if left and done < total else ""
        self.newest = f"fedsim: {self.name}: {done}/{total} rounds{about}  {words}"
        if time - self.last >= QUIET:
            self.last, self.shown = time, True
            self.say(self.newest)

    def close(self) -> None:
        """It is over: the last line, where there were others."""
        if self.shown:
            self.say(f"{self.newest}; {in_words(self.clock() - self.began)} in all")
