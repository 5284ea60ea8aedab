"""Several models at the server, of which a client of a round trains one."""

from typing import TYPE_CHECKING

import jax

from fedsim.engine.bank import choice_bytes, choices_of_groups, unstacked
from fedsim.engine.forms.one import OneModel
from fedsim.engine.slots import Slots
from fedsim.types import Bank, Shared

if TYPE_CHECKING:
    from fedsim.engine.records import RoundState


class Several(OneModel):
    """The models of a bank: of clusters, or of edges.

    Args:
      bank: the models.
    """

    chooses = True

    def __init__(self, bank: Bank):
        self.bank = bank

    def models(self, state: "RoundState", count: int) -> list[Shared]:
        """Return all models, as `OneModel.models`."""
        del count
        return unstacked(state.broadcast.shared)

    def bank_rows(self, state: "RoundState", slots: Slots, first_slot: int) -> jax.Array:
        """Return the row of the model that each client has chosen, or that the server has chosen.

        A client chooses by the losses of the pass before; arguments as of `OneModel.bank_rows`.
        """
        if state.run.program.server.needs_choice:
            assert state.probe is not None
            choices = state.probe.choices[first_slot // len(slots.weight)]
        else:
            choices = choices_of_groups(self.bank, state.start.server, slots)
        return slots.start + choices

    def asked_bytes(self, state: "RoundState") -> int:
        """Return the bytes of a client's choice, where it sends one."""
        if state.run.program.server.needs_choice:
            return choice_bytes(state.run.program.server.client)
        return super().asked_bytes(state)
