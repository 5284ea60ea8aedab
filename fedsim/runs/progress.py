"""How far a run or a comparison is, in rounds and in words; `fedsim.runs.displays` shows it."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedsim.assemble import Experiment
from fedsim.engine.run import Row, Run
from fedsim.runs.execute import Configuration, EndedRun
from fedsim.runs.filenames import label_of
from fedsim.runs.time_left import Point, TimeLeft
from fedsim.scenario import Scenario

# Columns of rounds.csv that are shown -> their names in words.
SHOWN = {
    "test_accuracy": "accuracy",
    "test_r2": "R²",
    "test_loss": "test loss",
    "train_loss": "train loss",
}
# Takes the rounds that are done, all rounds, words, and the seconds left if they are known.
Show = Callable[[int, int, str, float | None], None]


class Count:
    """What `fedsim.run` and `fedsim.compare` report to: how far their runs are.

    It counts the rounds of all runs, estimates how long they will still take, and describes in
    words where they are. It only reads rows that are written anyway, and the device never waits.

    Args:
      scenario: the scenario whose rounds are counted.
      show: called with what to show, after every change.
      clock: returns seconds.
    """

    def __init__(self, scenario: Scenario, show: Show, clock: Callable[[], float] = time.monotonic):
        self.spec = scenario.spec
        self.show = show
        self.clock = clock

        self.runs = len(self.spec.seeds)
        self.runs_done = 0

        # Rounds of all runs, and of those that have ended, as they were planned.
        self.all_rounds = self.runs * max(self.spec.rounds, 1)
        self.ended_rounds = 0

        # Of the runs in progress: their rounds, and the labels of their configurations.
        self.rounds_done: dict[tuple[int, int], int] = {}
        self.labels: dict[tuple[int, int], str] = {}

        # Of a comparison: its configurations by label, and the label of what comes next.
        self.cells: Mapping[str, Configuration] = {}
        self.label = ""
        self.elsewhere = False  # whether other processes do the runs

        alone = Configuration(number=1, runs=self.runs, rounds=self.spec.rounds, program=None)
        self.time_left = TimeLeft({"": alone}, clock=clock)

    def comparison_started(
        self, configurations: Mapping[str, Configuration], processes: int
    ) -> None:
        """A comparison of these configurations starts on this many processes."""
        self.cells = configurations
        self.runs = sum(cell.runs for cell in configurations.values())
        self.all_rounds = sum(cell.runs * max(cell.rounds, 1) for cell in configurations.values())
        self.time_left = TimeLeft(configurations, max(processes, 1), self.clock)
        self._show("compiling")

    def set_configuration(self, who: Mapping[str, Any]) -> None:
        """The following calls are about this configuration."""
        self.label = label_of(who)

    def run_started(self, experiment: Experiment, seed: int, run: Run) -> None:
        """A run starts, resumes from its last commit, or had ended before."""
        if self.elsewhere or run.round < 0:
            return
        key = (id(experiment), seed)
        wall_seconds, compile_seconds = run.stopwatch.earlier
        point = Point(run.round, wall_seconds - compile_seconds, compile_seconds)
        self.time_left.starts(self._configuration(), key, point)
        if run.status == "running":
            self.rounds_done[key] = run.round
            self.labels[key] = self.label
        else:
            self.time_left.finished(self._configuration(), key)
            self._run_ended(self.label)

    def runs_ended(self, runs: Sequence[EndedRun]) -> None:
        """Other processes have executed these runs."""
        self.elsewhere = True
        for run in runs:
            self.time_left.ended(run)
            self._run_ended(run.label)
        self._show(f"{self.runs_done} of {self.runs} runs ended")

    def __call__(self, experiment: Experiment, seed: int, row: Row) -> None:
        """A run has written a row."""
        key = (id(experiment), seed)
        round = row.values["round"]
        is_last = row.status != "running"
        compile_seconds = row.timing["compile_seconds"]
        point = Point(round, row.timing["wall_seconds"] - compile_seconds, compile_seconds)
        self.time_left.row(self._configuration(), key, point, last=is_last)

        self.rounds_done[key] = round
        self.labels[key] = self.label
        self._show(self._words(row) if round else f"{self._where()}compiling")
        if is_last:
            self._run_ended(self.label)
            del self.rounds_done[key]
            del self.labels[key]

    def _configuration(self) -> str:
        """Return the label of what comes next; a run that is not compared has none."""
        return self.label if self.cells else ""

    def _run_ended(self, label: str) -> None:
        self.runs_done += 1
        self.ended_rounds += self._rounds_of(label)

    def _rounds_of(self, label: str) -> int:
        """Return the rounds of one run of a configuration."""
        cell = self.cells.get(label)
        return max(self.spec.rounds if cell is None else cell.rounds, 1)

    def _show(self, words: str) -> None:
        done = self.ended_rounds + sum(self.rounds_done.values())
        self.show(done, self.all_rounds, words, self.time_left.seconds())

    def _words(self, row: Row) -> str:
        """Describe a row, most important things first: a narrow terminal cuts the end."""
        texts: list[str] = []
        for name, words in SHOWN.items():
            value = row.values.get(name)
            if value is not None:
                texts.append(f"{words} {value:.4f}")
        working = max(row.timing["wall_seconds"] - row.timing["compile_seconds"], 1e-9)
        texts.append(f"{row.values['round'] / working:.1f} rounds/s")
        return self._where() + "  ".join(texts)

    def _where(self) -> str:
        """Return which configurations of a comparison, or which of several seeds, are running."""
        slowest = min(self.rounds_done, key=lambda key: self.rounds_done[key], default=None)
        done = 0 if slowest is None else self.rounds_done[slowest]
        label = self.label if slowest is None else self.labels[slowest]
        round = f"round {done}/{self._rounds_of(label)}"
        if self.cells:
            return f"{self._running_cells()}: {round}  "
        if self.runs <= 1:
            return ""
        first = self.runs_done + 1
        last = self.runs_done + len(self.rounds_done)
        numbers = f"run {first}" if first == last else f"runs {first} to {last}"
        return f"{numbers} of {self.runs}: {round}  "

    def _running_cells(self) -> str:
        labels = {label for label in self.labels.values() if label in self.cells}
        running = sorted((self.cells[label].number, label) for label in labels)
        text = _numbered([number for number, _ in running], len(self.cells))
        if not running:
            return f"{text} {self.label}"
        text = f"{text} {running[0][1]}"
        return f"{text} and {len(running) - 1} more" if len(running) > 1 else text


def _numbered(numbers: list[int], total: int) -> str:
    """Return the numbers of the configurations that are running.

    >>> _numbered([3], 12), _numbered([3, 6], 12), _numbered([3, 4, 6, 9], 12)
    ('[3/12]', '[3+6/12]', '[3..9/12]')
    """
    if not numbers:
        return f"[0/{total}]"
    if len(numbers) < 4:
        return f"[{'+'.join(map(str, numbers))}/{total}]"
    return f"[{numbers[0]}..{numbers[-1]}/{total}]"
