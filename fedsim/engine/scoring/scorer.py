"""The scores of a run's models on samples that nobody trains on."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedsim.data import Federation
from fedsim.engine.frozen import with_frozen
from fedsim.engine.program import Program
from fedsim.engine.scoring.rows import Scores, Tests, columns_of_set, scores, scores_by_row
from fedsim.engine.scoring.sets import ScoredSets, Stack, scored_batch, sets_on_device
from fedsim.engine.server_records import ServerState
from fedsim.tree import Tree
from fedsim.types import Shared
from fedsim.types.client import ALONE

if TYPE_CHECKING:
    from fedsim.engine.forms import OneModel
    from fedsim.engine.run import Run


class Scorer:
    """Scores the models of a run's server.

    Args:
      form: of the server; it says which models are scored.

    Attributes:
      sets: what models are scored on; nothing where there is no shared model to score.
      batch: rows of a batch.
    """

    def __init__(self, program: Program, federation: Federation, frozen: Tree, form: "OneModel"):
        self.program = program
        self.frozen = frozen
        self.form = form
        self.batch = scored_batch(federation)
        self.sets = ScoredSets()
        if program.server.client.server != ALONE:
            self.sets = sets_on_device(federation, program.evaluation_threads)

    def evaluate(self, run: "Run", server: ServerState, together: bool = True) -> Tests:
        """Dispatch the evaluation of a server on every set; the device may still be computing.

        Args:
          together: use all threads together, instead of this one alone.
        """
        tests = {}
        for name, scored in self.sets.items():
            tests[name] = self.scores(server, scored.stacks, together=together)
            for other, variables in self.program.beside.items():
                models = [with_frozen(variables(server), self.frozen)]
                tests[f"{other}/{name}"] = self._scores(models, scored.stacks, together=together)
        return {**tests, **self.form.evaluate(run, server)}

    def scores(
        self,
        server: ServerState,
        stacks: Iterable[Stack],
        wait: bool = False,
        together: bool = True,
    ) -> list[Scores]:
        """Return the scores of stacks of batches by each model, as `rows.scores`."""
        models = self.form.scored_models(self.shown(server))
        return self._scores(models, stacks, wait, together)

    def _scores(
        self, models: list, stacks: Iterable[Stack], wait: bool = False, together: bool = True
    ) -> list[Scores]:
        threads = self.program.evaluation_threads if together else 1
        return scores(self.program.evaluate, threads, models, stacks, wait)

    def columns_beside(self, tests: Tests) -> dict[str, float | None]:
        """Return the columns of what is scored beside the server's own variables."""
        columns = {}
        for other in self.program.beside:
            for name, scored in self.sets.items():
                (results,) = tests[f"{other}/{name}"]
                rows = scores_by_row(results, scored.rows)
                columns |= columns_of_set(f"{other}/{name}", rows, scored.y, self.program.measures)
        return columns

    def shown(self, server: ServerState) -> Shared:
        """Return the server's variables that are scored, with the frozen leaves."""
        return with_frozen(self.program.server.sender.shown(server), self.frozen)

    def release(self) -> None:
        self.sets = ScoredSets()


class Moment:
    """A run as its clients are scored: with its server after a round.

    Args:
      run: the run, whose memory of the clients is read as it is.
      round: after which round; its labels count, where labels move.
    """

    def __init__(self, run: "Run", server: ServerState, round: int):
        self.run = run
        self.server = server
        self.round = round
        self.federation: Federation = run.plan.federation.unpooled

    @cached_property
    def labels(self) -> np.ndarray:
        """The labels of the training samples."""
        return self.federation.labels_in(self.round)

    @cached_property
    def choices(self) -> np.ndarray | None:
        """The number of every client's model `[N]`; None where the server has a single one."""
        return self.run.form.choices(self)


def end_of(run: "Run") -> Moment:
    """Return the end of a run, or how far it has come."""
    return Moment(run, run.result, run.round)
