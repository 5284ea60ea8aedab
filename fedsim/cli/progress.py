"""Progress on stderr, where that is a terminal."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedsim.build import Experiment
from fedsim.engine.run import Row
from fedsim.scenario import Scenario

SHOWN = {"train_loss": "train loss", "test_loss": "test loss", "test_accuracy": "accuracy"}  # beside the bar


class Bar:
    """The `watch` of `fedsim.run` and `fedsim.compare`: a bar over all rounds of all runs.

    It only shows rows that are there anyway, and never makes the device wait.

    Args:
      progress: rich's, on stderr.
      scenario: whose rounds are counted.
    """

    def __init__(self, progress: Progress, scenario: Scenario):
        self.progress, self.spec = progress, scenario.spec
        self.rounds, self.over = max(self.spec.rounds, 1), 0
        self.runs, self.at = len(self.spec.seeds), dict[tuple[int, int], int]()  # rounds of the runs that go on
        self.task = progress.add_task(self.spec.name, total=self.rounds * self.runs, state="compiling")

    def begin(self, runs: int) -> None:
        """There are so many runs."""
        self.runs = runs
        self.progress.update(self.task, total=self.rounds * runs)

    def ended(self, runs: int) -> None:
        """So many runs more are over, wherever they ran."""
        self.over += runs
        self.progress.update(self.task, completed=self.rounds * self.over, state=f"run {self.over} of {self.runs}")

    def __call__(self, experiment: Experiment, seed: int, row: Row) -> None:
        values, timing = row.values, row.timing
        working = max(timing["wall_seconds"] - timing["compile_seconds"], 1e-9)
        self.at[id(experiment), seed] = values["round"]
        several = [f"{_numbered(self.over, len(self.at))} of {self.runs}"] if self.runs > 1 else []
        parts = [*several, f"{values['round'] / working:.1f} rounds/s"]
        parts += [f"{words} {values[name]:.4f}" for name, words in SHOWN.items() if values.get(name) is not None]
        parts += [f"compiled in {timing['compile_seconds']:.1f} s"]
        completed = self.rounds * self.over + sum(self.at.values())
        state = "  ".join(parts) if values["round"] else "compiling"
        self.progress.update(self.task, completed=completed, state=state)
        if row.status != "running":
            self.over += 1
            del self.at[id(experiment), seed]


def _numbered(over: int, going: int) -> str:
    """The numbers of the runs that are going on.

    >>> _numbered(3, 1), _numbered(3, 5)
    ('run 4', 'runs 4 to 8')
    """
    return f"run {over + 1}" if going == 1 else f"runs {over + 1} to {over + going}"


@contextlib.contextmanager
def progress(scenario: Scenario, quiet: bool) -> Iterator[Bar | None]:
    """A bar on stderr, where that is a terminal and nobody asked for quiet."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[state]}"))
    with Progress(*parts, TimeRemainingColumn(), console=console, transient=True) as bar:
        yield Bar(bar, scenario)


@contextlib.contextmanager
def status_line(wanted: bool) -> Iterator[Callable[[str], None]]:
    """A line on stderr about the work in progress, where there is somebody to read it -> how to change it."""
    console = Console(stderr=True)
    if not (wanted and console.is_terminal):
        yield lambda text: None
        return
    with console.status("") as status:
        yield status.update
