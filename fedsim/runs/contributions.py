"""`fedsim contributions`: what every client of a finished run contributed to its final score.

`shapley` and `gtg` ask for each round what the model before it would have become by the updates of
some of its clients, and share out what the round gained; the shares are summed over rounds. So the
contributions of all clients sum to the gain of the run. `leave_one_out` trains again without each
client, under the same seeds.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from fedsim.assemble import Experiment
from fedsim.disk import files, tables
from fedsim.disk.tables import Record, unstacked
from fedsim.engine.coalitions import Coalitions, why_no_coalitions
from fedsim.engine.recording import RoundUpdates
from fedsim.engine.run import Run
from fedsim.errors import CheckpointError, Interrupted, Problem, ScenarioError
from fedsim.runs.compare import compare
from fedsim.runs.ended import EndedRun, ended_run
from fedsim.runs.replay import RecordedSeed
from fedsim.runs.updates import require_updates, updates_in
from fedsim.study import shapley
from fedsim.study.shapley import Estimate, Truncation
from fedsim.study.statistics import interval
from fedsim.study.summary import larger_is_better

How = Literal["leave_one_out", "shapley", "gtg"]
MOST_EXACT = 8  # clients of a round whose 2^K coalitions are all tried
AS_PUBLISHED = Truncation()
CUT_OFF = (
    "gtg cuts off rounds and orders that gain little, as published: the values are biased by that, "
    "and the standard error is of the orders alone"
)
OTHER_SAMPLES = (
    "clients hold other samples under each seed, so means over seeds say little of a client; "
    "name one seed"
)
EVERYBODY = "everybody"  # label of the run of all clients, where others lack one

COLUMNS = (
    "client", "value", "low", "high", "standard_error", "samples", "rounds",
)  # fmt: skip
BY_ROUND = ("seed", "round", "client", "value", "standard_error")


class Score(NamedTuple):
    """What decides what a contribution is worth.

    Attributes:
      samples: the set that is scored, `validation` where there is one, else `test`.
      metric: the score, such as `accuracy`.
    """

    samples: str
    metric: str

    @property
    def column(self) -> str:
        """The column of `rounds.csv`."""
        return f"{self.samples}_{self.metric}"

    @property
    def sign(self) -> float:
        """−1 for scores of which smaller ones are better: positive contributions help."""
        return 1.0 if larger_is_better(self.column) else -1.0


class OfSeed(NamedTuple):
    """What the clients contributed under one seed.

    Attributes:
      seed: the seed.
      values: by client `[N]`.
      errors: their standard errors `[N]`; NaN where there are none.
      gain: what all clients together contributed, from start to end.
      by_round: rows of what clients contributed in a round.
    """

    seed: int
    values: np.ndarray
    errors: np.ndarray
    gain: float
    by_round: list[Record]


class Contributions:
    """What every client contributed, as `fedsim.contributions` returns it.

    Attributes:
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
        how: str,
        score: Score,
        of_seeds: Sequence[OfSeed],
        clients: Sequence[Record],
        note: str,
    ):
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

    def plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "how": self.how,
            "score": self.score,
            "seeds": self.seeds,
            "gain": self.gain,
            "clients": self.records,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `contributions.csv` into a folder, which is made if there is none.

        Raises:
          DirectoryError: when it cannot be written.
        """
        files.make_folder(Path(path))
        files.write(Path(path) / "contributions.csv", tables.to_csv(self.records, COLUMNS))


def contributions(
    path: str | os.PathLike[str],
    *,
    how: How = "shapley",
    seeds: Sequence[int] | None = None,
    out: str | os.PathLike[str] | None = None,
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
      seeds: some of the run's seeds; left out: all.
      out: write `contributions.csv` into this folder.
      truncation: when GTG-Shapley stops.
      draws: seed of its permutations.
      device: compute on these, as `fedsim.run` takes it.
      data_roots: folders that the record may name data files in, besides the working directory.
      ask: called after every round, or run; where it returns True, nothing is written.

    Returns:
      A row per client, and per round; see `Contributions`.

    Raises:
      ScenarioError: where a round has too many clients for exact values.
      DirectoryError: where there is no finished run of one method, and for `out`.
      CheckpointError: where the run cannot be repeated here, or its rule makes no models of some of
        the updates.
      Interrupted: when `ask` said so.
    """
    ended = ended_run(Path(path), device, data_roots, "analyse")
    chosen = list(ended.record["scenario"]["seeds"] if seeds is None else seeds)
    recorded_seeds = ended.recorded(chosen)
    with ended.numerics() as devices:
        experiment = ended.build(devices)
        score = _score(ended, experiment)
        if how == "leave_one_out":
            of_seeds = _left_out(ended, experiment, chosen, score, ask)
        else:
            require_updates(ended, experiment)
            of_seeds = []
            for recorded in recorded_seeds:
                rounds = _rounds(ended, experiment, recorded, ask)
                sharing = _Sharing(ended, how, truncation, np.random.default_rng(draws))
                of_seeds.append(sharing.of_seed(experiment, recorded, rounds, score))
    found = Contributions(
        how, score, of_seeds, _clients(experiment, recorded_seeds), _note(how, ended, chosen)
    )
    if out is not None:
        found.save(out)
    return found


def _rounds(
    ended: EndedRun, experiment: Experiment, recorded: RecordedSeed, ask: Callable[[], bool]
) -> Iterator[RoundUpdates]:
    """Yield the updates of a seed, unless somebody asks to stop.

    Raises:
      Interrupted: when `ask` said so.
    """
    for updates in updates_in(ended, experiment, recorded):
        if ask():
            raise Interrupted(f"before round {updates.round} of seed {recorded.who['seed']}")
        yield updates


def _score(ended: EndedRun, experiment: Experiment) -> Score:
    """Return what contributions are shares of.

    Raises:
      CheckpointError: where the scenario's metric is not that of a model on samples.
    """
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


class _Sharing:
    """How the gain of a round is shared out among its clients.

    Args:
      ended: the run, for messages.
      how: `shapley` or `gtg`.
      truncation: when GTG-Shapley stops.
      draws: its permutations.
    """

    def __init__(
        self, ended: EndedRun, how: str, truncation: Truncation, draws: np.random.Generator
    ):
        self.ended = ended
        self.how = how
        self.truncation = truncation
        self.draws = draws

    def of_seed(
        self,
        experiment: Experiment,
        recorded: RecordedSeed,
        rounds: Iterable[RoundUpdates],
        score: Score,
    ) -> OfSeed:
        """Share out the gains of all rounds of a seed.

        Args:
          experiment: the run's experiment.
          recorded: the seed.
          rounds: its updates.
          score: what is gained.

        Raises:
          CheckpointError: where there are no models of some of the updates.
        """
        seed = recorded.who["seed"]
        run = experiment.run(seed)
        self._require_coalitions(run)
        coalitions = Coalitions(run, score.samples, score.metric)
        values = np.zeros(run.plan.federation.N)
        variances = np.zeros(run.plan.federation.N)
        gain = 0.0
        by_round = []
        for updates in rounds:
            players = np.flatnonzero(updates.columns["arrived"])
            clients = updates.clients[players]
            game = _game(coalitions, updates, players, score.sign)
            estimate = self._shares(game, len(players), updates.round)
            ends = game(shapley.ends(len(players)))
            if not np.isfinite([*ends, *estimate.values]).all():
                text = f"round {updates.round}: {score.column} of some clients' model is not finite"
                raise CheckpointError(f"{self.ended.path}: seed {seed}: {text}")
            gain += ends[1] - ends[0]
            np.add.at(values, clients, estimate.values)
            np.add.at(variances, clients, estimate.errors**2)
            by_round.append(_stack(seed, updates.round, clients, estimate))
        errors = np.sqrt(variances) if self.how == "gtg" else np.full(len(values), np.nan)
        return OfSeed(seed, values, errors, gain, by_round)

    def _require_coalitions(self, run: Run) -> None:
        """Refuse a run whose rule makes no models of some of the updates.

        Raises:
          CheckpointError: with the reason.
        """
        reason = why_no_coalitions(run)
        if reason:
            remedy = "--how leave_one_out trains again"
            raise CheckpointError(
                f"{self.ended.path}: updates do not say what clients contributed: {reason}; "
                f"{remedy}"
            )

    def _shares(self, game: shapley.Game, K: int, round: int) -> Estimate:
        """Return what each of the K clients of a round contributed.

        Raises:
          ScenarioError: where there are too many clients for exact values.
        """
        if self.how == "gtg":
            return shapley.gtg(game, K, self.draws, self.truncation)
        if K > MOST_EXACT:
            text = f"round {round} has {K} clients, and exact values take 2^{K} models a round"
            problem = Problem("", f"{text}; gtg (--how gtg) is for more than {MOST_EXACT}")
            raise ScenarioError([problem], str(self.ended.path))
        values = shapley.exact(game(shapley.coalitions(K)))
        return Estimate(values, np.full(K, np.nan), 0)


def _game(
    coalitions: Coalitions, updates: RoundUpdates, players: np.ndarray, sign: float
) -> shapley.Game:
    """Return the game of a round's clients whose messages arrived; larger values are better."""
    value = coalitions.game(updates)
    K = len(updates.clients)

    def game(members: np.ndarray) -> np.ndarray:
        mask = np.zeros((len(members), K), bool)
        mask[:, players] = members
        return sign * value(mask)

    return shapley.remembering(game)


def _stack(seed: int, round: int, clients: np.ndarray, estimate: Estimate) -> Record:
    """Return the rows of a round as one record."""
    return {
        "seed": seed,
        "round": round,
        "client": clients.tolist(),
        "value": estimate.values.tolist(),
        "standard_error": [None if math.isnan(e) else e for e in estimate.errors.tolist()],
    }


def _left_out(
    ended: EndedRun,
    experiment: Experiment,
    seeds: Sequence[int],
    score: Score,
    ask: Callable[[], bool],
) -> list[OfSeed]:
    """Train again without each client, under the same seeds: score with it − score without it."""
    plan = next(iter(experiment.plans.values()))
    N = plan.federation.N
    gone = list(ended.scenario.spec.fleet.without)
    entries: list[Mapping[str, Any]] = [{"method": None, "label": EVERYBODY}]
    others = [client for client in plan.eligible.tolist() if client not in gone]
    for client in others:
        entry = {"method": None, "label": f"without {client}"}
        entries.append({**entry, "set": {"fleet.without": [*gone, client]}})
    comparison = compare(
        ended.scenario,
        entries,
        baseline=EVERYBODY,
        seeds=seeds,
        device=ended.request.device,
        progress=False,
        ask=ask,
    )
    final = _final_scores(comparison.records["rounds"], score)
    of_seeds = []
    for seed in seeds:
        values = np.zeros(N)
        for client in others:
            with_it = final[EVERYBODY, seed]
            values[client] = with_it - final[f"without {client}", seed]
        of_seeds.append(OfSeed(seed, values, np.full(N, np.nan), math.nan, []))
    return of_seeds


def _final_scores(rows: Iterable[Record], score: Score) -> dict[tuple[str, int], float]:
    """Return the last scores by method and seed; larger ones are better."""
    final = {}
    for row in rows:
        final[row["method"], row["seed"]] = score.sign * row[score.column]
    return final


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
