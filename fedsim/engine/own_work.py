"""What the server of a run does by itself, for a rule that reads more than messages."""

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from fedsim.engine.loop import Loop
    from fedsim.engine.program import Program
    from fedsim.engine.records import RoundState
    from fedsim.engine.run import Run
    from fedsim.fleet import Plan
    from fedsim.types import Shared


class OwnShapes(NamedTuple):
    """What it takes.

    Attributes:
      samples: bytes of samples that training reads.
      held: bytes that training holds besides.
      reference: shapes of `RoundStart.reference`.
      server_loss: shapes of `RoundStart.server_loss`.
    """

    samples: int = 0
    held: int = 0
    reference: Any = None
    server_loss: Any = None


class OwnTraining(Protocol):
    """The training of a run's server in every round."""

    def before(self, loop: "Loop", state: "RoundState") -> "RoundState":
        """Return the state of a round whose server has trained; its clients have not yet."""
        ...


class OwnWork(Protocol):
    """What the servers of a program do."""

    def server_loss(self, plan: "Plan") -> Any:
        """Return `RoundStart.server_loss` of all rounds of a run."""
        ...

    def training(self, run: "Run") -> OwnTraining | None:
        """Return the training of a run's server; None where it trains nothing."""
        ...

    def shapes(self, program: "Program", plan: "Plan", shared: "Shared", frozen: Any) -> OwnShapes:
        """Return what all of it takes.

        Args:
          program: as built.
          plan: the plan of one seed.
          shared: shapes of the variables that are sent.
          frozen: shapes of the leaves that nobody trains.
        """
        ...
