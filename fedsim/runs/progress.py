"""How far a run or a comparison is, in rounds and in words; `fedsim.runs.displays` shows it."""

import time
from collections.abc import Callable, Mapping, Sequence

from fedsim.engine.run import Row, Run
from fedsim.runs.compiling import Compiling
from fedsim.runs.execute import JournaledRun
from fedsim.runs.executor import RunKey
from fedsim.runs.filenames import label_of
from fedsim.scenario import Scenario
from fedsim.study.grid import Cell

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
    """How far the runs of `fedsim.run` and `fedsim.compare` are; a `Listener`.

    It counts the rounds of all runs, estimates how long they will still take, and describes in
    words where they are. It only reads rows that are written anyway, and the device never waits.
    """

    def __init__(self, scenario: Scenario, show: Show, clock: Callable[[], float] = time.monotonic):
        self.name = scenario.spec.name
        self.rounds = scenario.spec.rounds
        self.show = show
        self.clock = clock

        self.runs = len(scenario.spec.seeds)
        self.runs_done = 0

        # Rounds of all runs, of those that have ended (as they were planned), and of the others.
        self.all_rounds = self.runs * max(self.rounds, 1)
        self.ended_rounds = 0
        self.rounds_done: dict[RunKey, int] = {}

        # Of a comparison: the rounds of a run of each configuration, by label.
        self.cells: Mapping[str, int] = {}
        self.elsewhere = False  # whether other processes do the runs

        self.compiling: Compiling | None = None
        self.is_compiling = False  # until the first round
        self.resumed = False  # whether runs had begun before, so that less is compiled

        # The pace is measured from here: when, and the rounds that had been done without it.
        self.began: float | None = None
        self.rounds_before = 0

    def comparison_started(self, cells: Sequence[Cell], programs: int) -> None:
        """A comparison of these configurations starts, or goes on to the next rung of a search."""
        self.cells = {label_of(cell.key_columns): cell.rounds for cell in cells}
        seeds = [len(cell.scenario.spec.seeds) for cell in cells]
        self.runs = sum(seeds)
        self.runs_done = 0
        self.ended_rounds = 0
        self.rounds_done = {}
        self.began = None
        self.rounds_before = 0
        pairs = zip(seeds, self.cells.values(), strict=True)
        self.all_rounds = sum(number * max(rounds, 1) for number, rounds in pairs)
        if self.compiling is None:  # later rungs have the programs of the first one
            self.compiling_started(programs)

    def compiling_started(self, programs: int) -> None:
        """So many programs are compiled, before the first round and between others."""
        self.compiling = Compiling(self.name, programs)
        self.is_compiling = True
        self._show(self.compiling.words)

    def close(self) -> None:
        """All runs of this process have ended."""
        if self.compiling is not None and not self.elsewhere and not self.resumed:
            self.compiling.remember()

    def runs_ended(self, runs: Sequence[RunKey]) -> None:
        """Other processes have executed these runs; the first ones had ended before."""
        self.elsewhere = True
        for label, _ in runs:
            self._run_ended(label)
        self._measure_from_here()
        self._show(f"{self.runs_done} of {self.runs} runs ended")

    def __call__(self, journaled: JournaledRun, row: Row | None) -> None:
        """A run starts, resumes or had ended before (None), or has written a row."""
        if self.elsewhere:
            return
        key = (label_of(journaled.who), journaled.who["seed"])
        if row is None:
            self._run_started(key, journaled.run)
        else:
            self._row_written(key, row)

    def _run_started(self, key: RunKey, run: Run) -> None:
        if run.round < 0:
            return
        self.resumed = True
        before = self._done()
        if run.status == "running":
            self.rounds_done[key] = run.round
        else:
            self._run_ended(key[0])
        self.rounds_before += self._done() - before

    def _row_written(self, key: RunKey, row: Row) -> None:
        round = row.values["round"]
        self.rounds_done[key] = round
        if round:
            self._measure_from_here()
        if self.compiling is not None and self.is_compiling:
            self._show(self.compiling.words)
        else:
            self._show(self._where() + (self._words(row) if round else "compiling"))
        if row.status != "running":
            del self.rounds_done[key]
            self._run_ended(key[0])

    def _run_ended(self, label: str) -> None:
        self.runs_done += 1
        self.ended_rounds += self._rounds_of(label)

    def _rounds_of(self, label: str) -> int:
        return max(self.cells.get(label, self.rounds), 1)

    def _done(self) -> int:
        return self.ended_rounds + sum(self.rounds_done.values())

    def _measure_from_here(self) -> None:
        """Measure the pace from here, if it is not measured yet: what compiled before is apart."""
        self.is_compiling = False
        if self.began is None:
            self.began = self.clock()
            self.rounds_before = self._done()

    def _show(self, words: str) -> None:
        done = self._done()
        left = None
        if self.began is not None and done > self.rounds_before:
            pace = (self.clock() - self.began) / (done - self.rounds_before)
            left = pace * (self.all_rounds - done)
        self.show(done, self.all_rounds, words, left)

    def _words(self, row: Row) -> str:
        """Describe a row, most important things first: a narrow terminal cuts the end."""
        texts: list[str] = []
        for name, words in SHOWN.items():
            value = row.values.get(name)
            if value is not None:
                texts.append(f"{words} {value:.4f}")
        working = max(row.timing["wall_seconds"] - row.timing["compile_seconds"], 1e-9)
        texts.append(f"{row.values['round'] / working:.1f} rounds/s")
        return "  ".join(texts)

    def _where(self) -> str:
        """Return which configurations of a comparison, or which of several seeds, are running."""
        slowest = min(self.rounds_done, key=lambda key: self.rounds_done[key])
        round = f"round {self.rounds_done[slowest]}/{self._rounds_of(slowest[0])}"
        if self.cells:
            return f"{self._running_cells()}: {round}  "
        if self.runs <= 1:
            return ""
        first = self.runs_done + 1
        last = self.runs_done + len(self.rounds_done)
        numbers = f"run {first}" if first == last else f"runs {first} to {last}"
        return f"{numbers} of {self.runs}: {round}  "

    def _running_cells(self) -> str:
        running = {label for label, _ in self.rounds_done}
        number, first = next(
            (number, label) for number, label in enumerate(self.cells, 1) if label in running
        )
        text = f"[{number}/{len(self.cells)}] {first}"
        return f"{text} and {len(running) - 1} more" if len(running) > 1 else text
