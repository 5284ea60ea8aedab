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

    def choices(self, state: "RoundState", slots: Slots, first_slot: int) -> jax.Array:
        """Return the model of least loss in the pass before, or that the server has decided on."""
        if state.run.server_programs.needs_choice:
            assert state.probe is not None
            return state.probe.choices[first_slot // len(slots.weight)]
        return choices_of_groups(self.bank, state.start.server, slots)

    def asked_bytes(self, state: "RoundState") -> int:
        """Return the bytes of a client's choice, where it sends one."""
        if state.run.server_programs.needs_choice:
            return choice_bytes(state.run.server_programs.client)
        return super().asked_bytes(state)
