"""Timetables: when the server steps. A factory returns a `Timetable`; `schedule` names its kind."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fedsim.compose import timetable
from fedsim.fleet.round_plan import RoundPlan, State

if TYPE_CHECKING:
    from fedsim.fleet.plan import Plan
    from fedsim.fleet.timelines import Timeline


class Steps(Protocol):
    """The steps of a server that does not wait for a cohort: each is a round."""

    def begin(self, plan: "Plan") -> State:
        """Return the state before the first step."""
        ...

    def plan_round(self, plan: "Plan", r: int, state: State) -> tuple[RoundPlan, State]:
        """Plan step r of the server -> the round, and the state after it."""
        ...

    def versions_in_flight(self, state: State) -> list[int]:
        """Return the versions of the model that clients still train from, rising."""
        ...

    def timeline(self, plan: "Plan") -> "Timeline":
        """Return what clients do first."""
        ...


class Timetable(NamedTuple):
    """When the server takes a step.

    Attributes:
      buffer: messages per step of an asynchronous server; 0: the server is synchronous, and a step
        ends when its whole cohort has reported.
      concurrency: clients that train at any time, of an asynchronous server.
      waits: whether the clients that have reported are replaced together after the step, instead of
        one by one.
      discount: age of an update -> factor on it; None: there is no discount.
      window: seconds after which the server steps with the messages that are there; 0: it steps
        when the buffer is full.
      mixing: age of a client's model -> its share in the mix; None: updates are added.
      steps: plans the steps of an asynchronous server.
    """

    buffer: int = 0
    concurrency: int = 0
    waits: bool = False
    discount: Callable[[Any], Any] | None = None
    window: float = 0.0
    mixing: Callable[[Any], Any] | None = None
    steps: Steps | None = None

    @property
    def asynchronous(self) -> bool:
        """Whether clients report one by one."""
        return self.steps is not None


SYNC = Timetable()


@timetable
def sync() -> Timetable:
    """The server waits for all clients of a round; a round takes as long as its slowest client."""
    return SYNC
