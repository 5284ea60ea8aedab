"""How one client trains: hooks on the one local loop, and the message that it returns.

Every hook is written for ONE client; `fedsim.engine` batches them.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

from jaxtyping import Array, Float, Key

from fedsim.tree import Tree
from fedsim.types.task import Batch, Shared, Task, Work


class Message(NamedTuple):
    """What a client returns: the three sections, its memory row, and the effort it took (‖a_i‖₁ of FedNova)."""

    delta: Tree
    stats: Tree
    aux: Tree
    memory: Tree
    effort: Float[Array, ""]


class StartHook(Protocol):
    """The round begins -> (variables, local): the model to train, and what else the hooks carry from step to step."""

    def __call__(self, task: Task, shared: Shared, row: Tree, work: Work) -> tuple[Tree, Tree]: ...


class GradientHook(Protocol):
    """What a batch says -> ((mean loss, stats after it), g), where g is whatever the step takes."""

    def __call__(
        self, task: Task, variables: Tree, batch: Batch, local: Tree, shared: Shared, work: Work
    ) -> tuple[tuple[Array, Tree], Tree]: ...


class StepHook(Protocol):
    """One local step -> (params, local)."""

    def __call__(
        self, task: Task, g: Tree, params: Tree, local: Tree, shared: Shared, work: Work
    ) -> tuple[Tree, Tree]: ...


class FinishHook(Protocol):
    """The round ends: what is sent, and the next memory row."""

    def __call__(
        self, task: Task, shared: Shared, variables: Tree, local: Tree, row: Tree, work: Work
    ) -> Message: ...


class Reducer(Protocol):
    """An entry of `aux` after a round, by what was sent, what the rule returned before any optimiser, and the pace.

    `old` is the entry so far, `pace` the mean over the clients of Σ of their learning rates.
    """

    def __call__(
        self, task: Task, old: Tree, shared: Shared, aggregate: Tree, pace: Array
    ) -> Tree: ...


class Client(NamedTuple):
    """How ONE client trains: hooks on the one local loop (`engine.lanes`), which batches them."""

    memory: Callable[[Shared, Key[Array, ""]], Tree]  # (shared at the start of the run, key) -> row
    start: StartHook
    gradient: GradientHook
    step: StepHook
    finish: FinishHook
    aux: Callable[[Task, Tree], dict[str, Tree]] = (
        lambda task, params: {}
    )  # the method's shared section at the start
    reduce: dict[str, Literal["mean", "sum_over_N"] | Reducer] = {}  # noqa: RUF012 (read only); of every key of `aux`
    # a pass at the global model before training; the mean of its `delta` is then shared["aux"]["probe"]
    probe: "Client | None" = None
    needs: frozenset[str] = frozenset()  # of `labels`, `classes`, `features`
    unused: frozenset[str] = (
        frozenset()
    )  # keys that all clients have, and this method makes no use of
    shares: Callable[[Tree], Tree] | None = (
        None  # params (names, shapes) -> a bool per leaf: which travel; None: all
    )
    personal: Callable[[Shared, Tree], Tree] | None = (
        None  # (shared, memory row) -> the client's own variables
    )
    solo: bool = False  # passes twice through the model in a step: its bits may depend on other runs beside it
