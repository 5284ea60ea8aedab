"""What clients contributed under a seed: shares of what rounds gained, or runs without a client."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble import Experiment
from fedsim.disk.tables import Record
from fedsim.engine.recording import RoundUpdates
from fedsim.errors import CheckpointError, Problem, ScenarioError
from fedsim.runs.compare import compare
from fedsim.runs.ended import EndedRun
from fedsim.runs.replay import RecordedSeed
from fedsim.study.summary import larger_is_better
from fedsim.tools.contributions import shapley
from fedsim.tools.contributions.coalitions import Coalitions, why_no_coalitions
from fedsim.tools.contributions.shapley import Estimate, Truncation

MOST_EXACT = 8  # clients of a round whose 2^K coalitions are all tried
EVERYBODY = "everybody"  # label of the run of all clients, where others lack one


class Score(NamedTuple):
    """What decides what a contribution is worth."""

    samples: str  # `validation` where there is such a set, else `test`
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
    """What the clients contributed under one seed."""

    seed: int
    values: np.ndarray  # by client `[N]`
    errors: np.ndarray  # standard errors `[N]`; NaN where there are none
    gain: float  # of all clients together, from start to end
    by_round: list[Record]


class Sharing:
    """How the gain of a round is shared out among its clients."""

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
        """Share out the gains of all rounds of a seed."""
        seed = recorded.who["seed"]
        run = experiment.run(seed)
        reason = why_no_coalitions(run)
        if reason:
            text = f"updates do not say what clients contributed: {reason}"
            remedy = "--how leave_one_out trains again"
            raise CheckpointError(f"{self.ended.path}: {text}; {remedy}")
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

    def _shares(self, game: shapley.Game, K: int, round: int) -> Estimate:
        """Return what each of the K clients of a round contributed."""
        if self.how == "gtg":
            return shapley.gtg(game, K, self.draws, self.truncation)
        if K > MOST_EXACT:
            text = f"round {round} has {K} clients, and exact values take 2^{K} models a round"
            problem = Problem("", f"{text}; gtg (--how gtg) is for more than {MOST_EXACT}")
            raise ScenarioError([problem], str(self.ended.path))
        values = shapley.exact(game(shapley.coalitions(K)))
        return Estimate(values, np.full(K, np.nan))


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


def left_out(
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
        device=ended.device,
        progress=False,
        ask=ask,
        **ended.given._asdict(),
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
