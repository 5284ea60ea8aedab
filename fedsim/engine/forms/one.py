"""One model, from which all clients of a round start."""

from typing import TYPE_CHECKING

import jax
import numpy as np

from fedsim import tree
from fedsim.engine.evaluation import Scores
from fedsim.engine.memory import Memory
from fedsim.engine.server_records import RoundStart, ServerState
from fedsim.engine.slots import RunCohort, Slots
from fedsim.fleet import Planner
from fedsim.types import Shared

if TYPE_CHECKING:
    from fedsim.engine.records import RoundState
    from fedsim.engine.run import Run


class OneModel:
    """What a round asks of a server; other forms change what they need to.

    Attributes:
      chooses: whether the clients of a round train one of several models.
    """

    chooses: bool = False

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
          state: the round.
          count: rows of a run in the bank.
        """
        return [state.broadcast.shared] * count

    def bank_rows(self, state: "RoundState", slots: Slots, first_slot: int) -> jax.Array:
        """Return the row of the bank that each client of a block starts from `[block]`.

        Args:
          state: the round.
          slots: of the block, with the rows as planned.
          first_slot: of the block.
        """
        del state, first_slot
        return slots.start

    def asked_bytes(self, state: "RoundState") -> int:
        """Return the bytes that a client sends besides its message: its loss, where that counts."""
        if not state.run.program.server.needs_client_loss:
            return 0
        loss = state.stats[0].loss
        return tree.payload_bytes(jax.ShapeDtypeStruct((), loss.dtype))

    def evaluate(self, run: "Run", server: ServerState) -> dict[str, Scores]:
        """Dispatch the evaluation of what only this form has -> scores by name."""
        del run, server
        return {}

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
