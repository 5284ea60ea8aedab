"""A search with rungs, played: of the settings that were compared, the best resume."""

import math
from collections.abc import Callable, Sequence

from fedsim.errors import CheckpointError
from fedsim.runs.commits import committed
from fedsim.runs.executor import Runs, all_runs, unfinished_and_ended
from fedsim.runs.filenames import RunFiles, label_of
from fedsim.study.cells import Cell
from fedsim.study.grid import Design
from fedsim.study.halving import brackets_of
from fedsim.study.promotion import RungScore, last_rounds
from fedsim.study.summary import larger_is_better
from fedsim.study.tuning import validation_of

LOST = ("diverged", "stopped")  # how runs end that have no score

PLAYED_ON = (
    "{label}, seed {seed}: was played to round {round}, and this search ends it after round "
    "{until}; search as before, or start over with --force or --out"
)


def has_rungs(design: Design) -> bool:
    """Whether settings of a comparison are compared before their last rounds."""
    return bool(brackets_of(design.cells, design.scenario.spec.compare.search))


def searched(design: Design, run_files: RunFiles, play: Callable[[Runs], None]) -> list[Cell]:
    """Play a comparison from rung to rung -> its cells, with the rounds after which they end.

    Those that go on to the last round are left at the rung before. What is in the journals already
    is not played again.
    """
    search = design.scenario.spec.compare.search
    cells = list(design.cells)
    brackets = brackets_of(cells, search)
    for bracket in brackets:
        for i in bracket.cells:
            cells[i] = cells[i]._replace(bracket=bracket.number)

    def scores_at(until: dict[int, int]) -> dict[int, RungScore]:
        at_rung = {i: cells[i]._replace(until=rounds) for i, rounds in until.items()}
        unfinished, _ = unfinished_and_ended(all_runs(list(at_rung.values())), run_files)
        if unfinished:
            play(unfinished)
        return {i: rung_score(cell, run_files) for i, cell in at_rung.items()}

    if brackets:
        for i, rounds in last_rounds(brackets, search.eta, scores_at).items():
            cells[i] = cells[i]._replace(until=rounds)
    _demand_not_beyond(cells, run_files)
    return cells


def rung_score(cell: Cell, run_files: RunFiles) -> RungScore:
    """Return how a cell does on validation data after the last of its rounds, by its journals."""
    spec = cell.scenario.spec
    column = validation_of(spec.evaluate.metric)
    sign = 1 if larger_is_better(spec.evaluate.metric) else -1
    values = []
    for seed in spec.seeds:
        value = _value_at(cell, seed, column, run_files)
        if value is not None and not math.isnan(value):
            values.append(sign * value)
    lost = len(spec.seeds) - len(values)
    return RungScore(lost, sum(values) / len(values) if values else 0.0)


def _value_at(cell: Cell, seed: int, column: str, run_files: RunFiles) -> float | None:
    """The value of a column after the last of a cell's rounds; None of a run without a score."""
    progress = committed(run_files.folder(label_of(cell.key_columns), seed), cell.rounds)
    if progress is None or (progress.status in LOST and progress.round <= cell.rounds):
        return None
    rows = [row for row in progress.tables.get("rounds", []) if row["round"] <= cell.rounds]
    return rows[-1].get(column) if rows else None


def _demand_not_beyond(cells: Sequence[Cell], run_files: RunFiles) -> None:
    """Refuse runs whose journals are beyond the round after which they end."""
    lines = []
    for cell in cells:
        label = label_of(cell.key_columns)
        for seed in cell.scenario.spec.seeds if cell.until is not None else ():
            progress = committed(run_files.folder(label, seed), cell.rounds)
            if progress is not None and progress.round > cell.rounds:
                values = {"seed": seed, "round": progress.round, "until": cell.until}
                lines.append(PLAYED_ON.format(label=label, **values))
    if lines:
        raise CheckpointError("\n".join(lines))
