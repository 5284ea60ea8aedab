"""`fedsim report --contributions`: what every client of a finished run added to its final score.

`shapley` and `gtg` ask for each round what the model before it would have become by the updates of
some of its clients, and share out what the round gained; the shares are summed over rounds. So the
contributions of all clients sum to the gain of the run. `leave_one_out` trains again without each
client, under the same seeds.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedsim.assemble import Experiment
from fedsim.disk import files, tables
from fedsim.disk.tables import Record, unstacked
from fedsim.engine.recording import RoundUpdates
from fedsim.errors import CheckpointError, Interrupted
from fedsim.report.figures import QUICK, files_of
from fedsim.runs import directory
from fedsim.runs.ended import EndedRun, ended_run
from fedsim.runs.given import Given
from fedsim.runs.replay import RecordedSeed
from fedsim.runs.updates import require_updates, updates_in
from fedsim.study.statistics import interval
from fedsim.study.summary import in_words
from fedsim.tools.contributions.figure import figure_of_contributions
from fedsim.tools.contributions.seeds import OfSeed, Score, Sharing, left_out
from fedsim.tools.contributions.shapley import Truncation, require_possible

How = Literal["leave_one_out", "shapley", "gtg"]
AS_PUBLISHED = Truncation()
TABLE = "contributions.csv"
FIGURE = "contributions"  # and its formats
FILES = (TABLE, *(f"{FIGURE}.{form}" for form in QUICK))
CUT_OFF = (
    "gtg cuts off rounds and orders that gain little: the values are biased by that, and the "
    "standard error is of the orders alone"
)
OTHER_SAMPLES = (
    "clients hold other samples under each seed, so means over seeds say little of a client; "
    "name one seed"
)

COLUMNS = (
    "client", "value", "low", "high", "standard_error", "samples", "rounds",
)  # fmt: skip
BY_ROUND = ("seed", "round", "client", "value", "standard_error")


class Contributions:
    """What every client contributed, as `fedsim.contributions` returns it.

    Attributes:
      name: of the scenario.
      how: `leave_one_out`, `shapley` or `gtg`.
      score: the column of `rounds.csv` that contributions are shares of; positive ones help, also
        where the score is a loss.
      seeds: the seeds.
      gain: what all clients together contributed, mean over seeds: from the start model to the
        final one; None under `leave_one_out`, whose values need not sum to anything.
      table: a row per client, most first: `value` is its mean over seeds, `low` and `high` a 95 %
        interval over several seeds, `standard_error` that of the permutations of `gtg`.
      by_round: a row per seed, round and client of the round.
      note: what to know of them; empty: nothing.
    """

    def __init__(
        self,
        name: str,
        how: str,
        score: Score,
        of_seeds: Sequence[OfSeed],
        clients: Sequence[Record],
        note: str,
    ):
        self.name = name
        self.how = how
        self.score = score.column
        self.seeds = [of_seed.seed for of_seed in of_seeds]
        self.note = note
        self.gain = None
        if how != "leave_one_out":
            self.gain = float(np.mean([of_seed.gain for of_seed in of_seeds]))
        self.records = _rows(of_seeds, clients)
        self.by_round = tables.frame(
            [row for of_seed in of_seeds for row in of_seed.by_round], BY_ROUND
        )

    @property
    def table(self) -> pd.DataFrame:
        return tables.frame(self.records, COLUMNS)

    def __repr__(self) -> str:
        return f"<{self.how} of {len(self.records)} clients to {self.score}; see .table>"

    @property
    def sentence(self) -> str:
        """What the values are."""
        score = in_words(self.score)
        if self.gain is None:
            return f"{score} with a client minus {score} without it; positive values help"
        return f"shares of {self.gain:+z.4f}, what {score} gained from round 0 to the last"

    def plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "how": self.how,
            "score": self.score,
            "seeds": self.seeds,
            "gain": self.gain,
            "clients": self.records,
        }

    def _write(self, folder: Path) -> None:
        """Write table and figure into a folder, which is locked."""
        unit = f"contribution to {in_words(self.score)} (right is better)"
        figure = figure_of_contributions(self.records, self.name, unit, self.sentence)
        contents: dict[str, str | bytes] = {
            TABLE: tables.to_csv(self.records, COLUMNS),
            **files_of([figure], FIGURE, formats=QUICK),
        }
        for name, content in contents.items():
            files.write(folder / name, content)


def contributions(
    path: str | os.PathLike[str],
    *,
    how: How = "shapley",
    data: Any = None,
    model: Any = None,
    params: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    seeds: Sequence[int] | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    truncation: Truncation = AS_PUBLISHED,
    draws: int = 0,
    device: str | None = None,
    data_roots: Iterable[str | os.PathLike[str]] = (),
    ask: Callable[[], bool] = lambda: False,
) -> Contributions:
    """Say what every client of a finished run contributed to its final score.

    The score is the scenario's metric on validation samples where there are any, else on test
    samples. Updates are those that the run kept (`checkpoint: {updates: true}`), or a replay's.

    Args:
      path: the directory of a run of one method.
      how: `shapley`, exact, for at most 8 clients a round; `gtg`, its estimate by GTG-Shapley; or
        `leave_one_out`, which trains again without each client.
      data: what `fedsim.run` was given, if it was.
      model: likewise.
      params: likewise.
      loss: likewise.
      seeds: some of the run's seeds; left out: all.
      out: write `contributions.csv` and the figure into this folder.
      force: replace files of these names there.
      truncation: when GTG-Shapley stops.
      draws: seed of its permutations.
      device: compute on these, as `fedsim.run` takes it.
      data_roots: folders that the record may name data files in, besides the working directory.
      ask: called after every round, or run; where it returns True, nothing is written.

    Returns:
      A row per client, and per round; see `Contributions`.

    Raises:
      ScenarioError: where a round has too many clients for exact values, and for a truncation that
        is not possible.
      DirectoryError: where there is no finished run of one method, and for `out`.
      LockedError: when another process is writing in `out`.
      CheckpointError: where the run cannot be repeated here, or its rule makes no models of some of
        the updates.
      Interrupted: when `ask` said so.
    """
    require_possible(truncation)
    given = Given(data, model, params, loss)
    ended = ended_run(Path(path), device, data_roots, "contributions", "analyse", given)
    chosen = list(ended.record["scenario"]["seeds"] if seeds is None else seeds)
    recorded_seeds = ended.recorded(chosen)
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(directory.open_output_folder(Path(out), FILES, force))
        experiment = ended.build(stack.enter_context(ended.numerics()))
        score = _score(ended, experiment)
        if how == "leave_one_out":
            of_seeds = left_out(ended, experiment, chosen, score, ask)
        else:
            require_updates(ended, experiment)
            of_seeds = []
            for recorded in recorded_seeds:
                rounds = _rounds(ended, experiment, recorded, ask)
                sharing = Sharing(ended, how, truncation, np.random.default_rng(draws))
                of_seeds.append(sharing.of_seed(experiment, recorded, rounds, score))
        clients = _clients(experiment, recorded_seeds)
        name = ended.scenario.spec.name
        result = Contributions(name, how, score, of_seeds, clients, _note(how, ended, chosen))
        if out is not None:
            result._write(Path(out))
    return result


def _rounds(
    ended: EndedRun, experiment: Experiment, recorded: RecordedSeed, ask: Callable[[], bool]
) -> Iterator[RoundUpdates]:
    """Yield the updates of a seed, unless somebody asks to stop."""
    for updates in updates_in(ended, experiment, recorded):
        if ask():
            raise Interrupted(f"before round {updates.round} of seed {recorded.who['seed']}")
        yield updates


def _score(ended: EndedRun, experiment: Experiment) -> Score:
    """Return what contributions are shares of."""
    metric = ended.scenario.spec.evaluate.metric
    name = metric.removeprefix("test_")
    if not metric.startswith("test_"):
        reason = f"evaluate.metric is {metric}, which is no score of a model on test samples"
        raise CheckpointError(f"{ended.path}: {reason}")
    plan = next(iter(experiment.plans.values()))
    has_validation = len(plan.federation.validation.y) > 0
    labelled = plan.federation.classes > 0
    if name == "accuracy" and not labelled:
        name = "loss"
    return Score("validation" if has_validation else "test", name)


def _clients(experiment: Experiment, recorded_seeds: Sequence[RecordedSeed]) -> list[Record]:
    """Return name, samples and rounds of every client, the numbers as means over seeds."""
    plan = next(iter(experiment.plans.values()))
    names = plan.federation.client_names.tolist()
    samples = []
    rounds = []
    for recorded in recorded_seeds:
        joined = {}  # tables of very many clients list those alone that took part
        for row in unstacked(recorded.tables["clients"]):
            joined[row["client"]] = row["rounds_joined"]
        samples.append(experiment.plans[recorded.who["seed"]].sizes)
        rounds.append([joined.get(name, 0) for name in names])
    columns = zip(names, np.mean(samples, axis=0), np.mean(rounds, axis=0), strict=True)
    return [
        {"client": name, "samples": _number(n), "rounds": _number(joined)}
        for name, n, joined in columns
    ]


def _number(value: float) -> float:
    """Return a mean, as an integer where it is one."""
    return int(value) if float(value).is_integer() else float(value)


def _rows(of_seeds: Sequence[OfSeed], clients: Sequence[Record]) -> list[Record]:
    """Return the rows of `contributions.csv`, those that contributed most first."""
    values = np.array([of_seed.values for of_seed in of_seeds])  # [seeds, N]
    variances = np.array([of_seed.errors**2 for of_seed in of_seeds])
    errors = np.sqrt(variances.sum(axis=0)) / len(of_seeds)
    rows = []
    for number, client in enumerate(clients):
        low, high = interval(values[:, number]) or (None, None)
        error = float(errors[number])
        row = {
            **client,
            "value": float(values[:, number].mean()),
            "low": low,
            "high": high,
            "standard_error": None if math.isnan(error) else error,
        }
        rows.append(row)
    return sorted(rows, key=lambda row: -row["value"])


def _note(how: How, ended: EndedRun, seeds: Sequence[int]) -> str:
    """Return what to know of contributions, a line each."""
    notes = []
    if how == "gtg":
        notes.append(CUT_OFF)

    partitions = {ended.record["hashes"]["partition"][str(seed)] for seed in seeds}
    if len(partitions) > 1:
        notes.append(OTHER_SAMPLES)
    return "\n".join(notes)
