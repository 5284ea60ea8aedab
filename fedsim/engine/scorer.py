"""The scores of a run's server on samples that nobody trains on."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedsim.data import Federation
from fedsim.engine.bank import GROUPS, models_of
from fedsim.engine.evaluation import (
    Scores,
    Stack,
    evaluation_stacks,
    mean_of_models,
    metrics,
    scores,
    scores_by_row,
    scores_of_model,
    stacks_on_device,
)
from fedsim.engine.frozen import with_frozen
from fedsim.engine.node_scores import NODES, node_columns
from fedsim.engine.program import Program
from fedsim.engine.server_records import ServerState
from fedsim.tree import Tree
from fedsim.types.client import ALONE

TRIGGERED = "triggered"  # the set of samples that have a backdoor's trigger


class Scorer:
    """Scores servers of a run.

    Args:
      program: the compiled half of the run.
      federation: the samples.
      frozen: leaves of the model that nobody trains.

    Attributes:
      stacks: the batches of each set, on the device; none where there is no shared model to score.
      rows: the samples of each set.
      batch: rows of a batch.
    """

    def __init__(self, program: Program, federation: Federation, frozen: Tree):
        self.program = program
        self.federation = federation
        self.frozen = frozen
        self.stacks: dict[str, list[Stack]] = {}
        threads = program.evaluation_threads
        stacks, self.rows, self.batch = evaluation_stacks(federation, threads)
        if program.server.client.server != ALONE:
            self.stacks = stacks_on_device(stacks, federation, threads)

    def evaluate(self, server: ServerState, together: bool = True) -> dict[str, Scores]:
        """Dispatch the evaluation of a server on every set; the device may still be computing.

        Args:
          server: the server to evaluate.
          together: use all threads together, instead of this one alone.
        """
        return {
            name: self.scores(server, stacks, together=together)
            for name, stacks in self.stacks.items()
        }

    def scores(
        self,
        server: ServerState,
        stacks: Iterable[Stack],
        wait: bool = False,
        together: bool = True,
    ) -> Scores:
        """Return the scores of stacks of batches, as `evaluation.scores`."""
        program = self.program
        threads = program.evaluation_threads if together else 1
        shown = with_frozen(program.server.sender.shown(server), self.frozen)
        return scores(program.evaluate, threads, shown, stacks=stacks, wait=wait)

    def by_row(self, server: ServerState, results: Scores, n: int) -> dict[str, np.ndarray]:
        """Return the scores of n rows; of several models the means, and those of each as well."""
        by_row = scores_by_row(results, n)
        if self.program.server.client.bank is None:
            return by_row
        return {**by_row, **mean_of_models(by_row, self._models(server))}

    def columns(self, server: ServerState, tests: dict[str, Scores]) -> dict[str, Any]:
        """Return the columns of `rounds.csv` of an evaluation.

        Args:
          server: which was evaluated.
          tests: the scores of each set, and those of `NODES`.
        """
        columns = {}
        for name, results in tests.items():
            if name == NODES:
                columns |= node_columns(results, self.federation.scored["test"][1])
                continue
            _, y = self.federation.scored[name]
            by_row = self.by_row(server, results, self.rows[name])
            means = metrics(by_row, y)
            if name == TRIGGERED:
                columns["attack_success"] = means.get("accuracy")
                continue
            columns |= {f"{name}_{metric}": value for metric, value in means.items()}
            if models_of(self.program.server.client) > 1:
                columns |= self._columns_by_model(server, name, by_row)
        return columns

    def _columns_by_model(
        self, server: ServerState, name: str, by_row: dict[str, np.ndarray]
    ) -> dict[str, Any]:
        """Return the scores of every model of a server on a set."""
        _, y = self.federation.scored[name]
        columns = {}
        for model in range(self._models(server)):
            means = metrics(scores_of_model(by_row, model), y)
            columns |= {f"model{model}/{name}_{metric}": value for metric, value in means.items()}
        return columns

    def _models(self, server: ServerState) -> int:
        """Return how many models of a server are in use: the first ones."""
        groups = server.state.get(GROUPS)
        if groups is not None:
            return int(groups.clusters)
        return models_of(self.program.server.client)

    def release(self) -> None:
        """Free the samples."""
        self.stacks = {}
