"""What looks on while the clients of a round train."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fedsim.engine.meters import Meter
    from fedsim.engine.records import RoundState, TrainedBlock
    from fedsim.engine.server_records import ServerUpdate


class Observer(Protocol):
    """Measures the updates of a round, those of all runs that train side by side.

    Every run has one, of the same class; that of the first run is asked. Its programs are separate
    from the training and change no bit of it.
    """

    def add(self, observed: Any, states: "list[RoundState]", trained: "TrainedBlock") -> Any:
        """Return what is observed, with a block that has arrived.

        Args:
          observed: in the blocks before; None: this is the first.
          states: the state of every run.
          trained: the block.
        """
        ...

    def report(
        self,
        observed: Any,
        states: "list[RoundState]",
        updates: "list[ServerUpdate | None]",
    ) -> "tuple[list[ServerUpdate | None], Any]":
        """Return the updates with more in their reports, and what the host reads later.

        Args:
          observed: in all blocks.
          states: the state of every run.
          updates: the update of every run; None for a run that takes no part.
        """
        ...

    def meter(self) -> "Meter":
        """Return what counts what the host reads, `DispatchedRound.observed`."""
        ...
