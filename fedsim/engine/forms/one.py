"""One model, from which all clients of a round start."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedsim import tree
from fedsim.data import Holders
from fedsim.engine.memory import Memory
from fedsim.engine.scoring.clients import ClientScores, shared_scores
from fedsim.engine.scoring.personal import personal_scores, personal_variables
from fedsim.engine.scoring.rows import Measures, Rows, Tests, columns_of_set, scores_by_row
from fedsim.engine.scoring.scorer import Moment
from fedsim.engine.scoring.sets import ScoredSets
from fedsim.engine.server_records import RoundStart, ServerState
from fedsim.engine.slots import RunCohort, Slots
from fedsim.fleet import Planner
from fedsim.tree import Tree
from fedsim.types import Shared
from fedsim.types.client import ALONE

if TYPE_CHECKING:
    from fedsim.engine.records import RoundState
    from fedsim.engine.run import Run


class OneModel:
    """What a round asks of a server; other forms change what they need to.

    Attributes:
      chooses: whether the clients of a round train one of several models.
      versions: models that clients were given and still train from; None: all have the newest.
      measures: what the run's program measures of outputs.
    """

    chooses: bool = False
    versions: Any = None
    measures: Measures | None = None

    def begin(self, run: "Run") -> None:
        """Prepare a run before its first round."""

    def rows_of_round(self, cohort: int, N: int) -> int:
        """Return the rows of client memory that a round has.

        Args:
          cohort: rows of the largest cohort, in full blocks.
          N: all clients.
        """
        del N
        return cohort

    def load(self, run: "Run", run_cohort: RunCohort) -> tuple[np.ndarray, Memory, np.ndarray]:
        """Load what the clients of a round remember.

        Returns:
          The clients that are loaded, their memory, and its row for each client of the cohort.
        """
        ids = run_cohort.cohort.ids
        memory, rows = run.store.load(ids)
        return ids, memory, rows

    def start(self, run: "Run", run_cohort: RunCohort, start: RoundStart) -> RoundStart:
        """Return the start of a round with what only this form knows of it."""
        del run, run_cohort
        return start

    def models(self, state: "RoundState", count: int) -> list[Shared]:
        """Return the models that a run's clients start from; all runs fill equally many rows.

        Args:
          count: rows of a run in the bank.
        """
        return [state.broadcast.shared] * count

    def bank_rows(self, state: "RoundState", slots: Slots, first_slot: int) -> jax.Array:
        """Return the row of the bank that each client of a block starts from `[block]`.

        Args:
          slots: of the block, with the rows as planned.
        """
        del state, first_slot
        return slots.start

    def asked_bytes(self, state: "RoundState") -> int:
        """Return the bytes that a client sends besides its message: its loss, where that counts."""
        if not state.run.program.server.needs_client_loss:
            return 0
        loss = state.stats[0].loss
        return tree.payload_bytes(jax.ShapeDtypeStruct((), loss.dtype))

    def scored_models(self, shared: Shared) -> list[Shared]:
        """Return the models that are scored, of the variables that the server shows."""
        return [shared]

    def evaluate(self, run: "Run", server: ServerState) -> Tests:
        """Dispatch the evaluation of what only this form has -> scores by name."""
        del run, server
        return {}

    def columns(self, server: ServerState, sets: ScoredSets, tests: Tests) -> dict[str, Any]:
        """Return the columns of `rounds.csv` of an evaluation.

        Args:
          tests: as `Scorer.evaluate` returns them.
        """
        columns = {}
        for name, scored in sets.items():
            by_model = [scores_by_row(results, scored.rows) for results in tests[name]]
            columns |= self.columns_of_set(server, name, scored.y, by_model)
        return columns

    def columns_of_set(
        self, server: ServerState, name: str, y: np.ndarray, by_model: Sequence[Rows]
    ) -> dict[str, Any]:
        """Return the columns of a set.

        Args:
          y: its labels or targets.
          by_model: the scores of its rows by each of `scored_models`.
        """
        del server
        return columns_of_set(name, by_model[0], y, self.measures)

    def choices(self, moment: Moment) -> np.ndarray | None:
        """Return the number of every client's model `[N]`; None where there is a single one."""
        del moment

    def client_scores(
        self, moment: Moment, chosen: np.ndarray, shared_on: Holders, own: Holders
    ) -> dict[str, ClientScores]:
        """Score the clients by the models that each of them has.

        Args:
          chosen: mask of the clients to score `[N]`.
          shared_on: the samples that the shared model is scored on.
          own: the samples of every client that it never trains on, for a model of its own.

        Returns:
          Scores by the `shared` model and the `personal` ones, as far as there are any.
        """
        client = moment.run.program.server.client
        scores = {}
        if client.server != ALONE:
            scores["shared"] = shared_scores(moment, chosen, shared_on)
        if client.scored.personal is not None:
            scores["personal"] = personal_scores(moment, chosen, own)
        return scores

    def own_variables(self, moment: Moment, id: int) -> Tree:
        """Return a client's own variables, as they are scored.

        Raises:
          ValueError: for a client that has none.
        """
        return personal_variables(moment, id)

    def close(self, round: int, shared: Shared) -> None:
        """Note the variables that a round was dispatched for; the device may still compute them."""

    def over(self, planner: Planner, round: int, shared: Shared) -> None:
        """Note that the host has read a round."""

    def arrays(self, planner: Planner) -> dict[str, np.ndarray]:
        """Return what a checkpoint stores."""
        del planner
        return {}

    def restore(self, arrays: dict[str, np.ndarray], planner: Planner, shared: Shared) -> None:
        """Resume from what `arrays` returned, with the server's variables."""
