"""How one client trains: hooks on the one local loop, and the message that it returns.

Every hook is written for ONE client; `fedsim.engine` batches them.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from jaxtyping import Array, Bool, Float, Key

from fedsim.tree import Tree
from fedsim.types.task import Batch, Model, Shared, Task, Work
from fedsim.types.updates import Updates

POOLED = "pooled"  # trained on the samples of all clients together
ALONE = "alone"  # every client trained by itself


class Message(NamedTuple):
    """What a client returns: what it sends, and what it remembers."""

    delta: Tree  # of the parameters
    stats: Tree
    aux: Tree
    memory: Tree  # its next memory row
    effort: Float[Array, ""]  # ‖a_i‖₁ of FedNova


class StartHook(Protocol):
    """At the start of the round -> (variables, local).

    `variables` are the model to train; `local` is what else the hooks carry from step to step.
    """

    def __call__(self, task: Task, shared: Shared, row: Tree, work: Work) -> tuple[Tree, Tree]: ...


class GradientHook(Protocol):
    """For every batch -> ((mean loss, stats after it), g), where g is whatever the step takes."""

    def __call__(
        self, task: Task, variables: Tree, batch: Batch, local: Tree, shared: Shared, work: Work
    ) -> tuple[tuple[Array, Tree], Tree]: ...


class StepHook(Protocol):
    """One local step -> (params, local)."""

    def __call__(
        self, task: Task, g: Tree, params: Tree, local: Tree, shared: Shared, work: Work
    ) -> tuple[Tree, Tree]: ...


class FinishHook(Protocol):
    """At the end of the round -> what is sent, and the next memory row."""

    def __call__(
        self, task: Task, shared: Shared, variables: Tree, local: Tree, row: Tree, work: Work
    ) -> Message: ...


class Reducer(Protocol):
    """An entry of `aux` after a round.

    `old` is the entry so far, `aggregate` what the rule returned before any optimiser, and `pace`
    the mean over the clients of the sum of their learning rates.
    """

    def __call__(
        self, task: Task, old: Tree, shared: Shared, aggregate: Tree, pace: Array
    ) -> Tree: ...


class Grouping(NamedTuple):
    """How the server divides the clients between its models, by what they send.

    Attributes:
      init: (mask of the clients that can take part `[N]`, models k) -> state; its fields are
        `cluster` `[N]`, the model of every client, and `clusters`: how many are in use, the first.
      apply: (updates, ids `[K]`, round, state) -> (state, parents `[k]`, columns of `rounds.csv`);
        model j goes on from where model `parents[j]` is.
    """

    init: Callable[[Bool[Array, " N"], int], Any]
    apply: Callable[[Updates, Array, Any, Any], tuple[Any, Array, dict[str, Array]]]


class Bank(NamedTuple):
    """Several models at the server; a client trains one of them in a round.

    Rule and optimisers work once for each model, on the messages of the clients that trained it.
    A model that too few clients trained stays as it is.

    Attributes:
      models: k.
      choice: a pass over a client's samples with all models `[k, ...]`, whose message is the loss
        of each `[k]`: the client takes the model of least loss, the first of equal ones. None: the
        server decides, by `grouping`.
      grouping: how the server decides.
      sent: models that a client receives in a round.
      over_round: whether a mean is over all messages of the round, instead of those of the model.
    """

    models: int
    choice: "Client | None" = None
    grouping: Grouping | None = None
    sent: int = 1
    over_round: bool = False


class Client(NamedTuple):
    """How ONE client trains: hooks on the one local loop (`engine.lanes`), which batches them.

    Attributes:
      memory: (shared at the start of the run, key) -> row.
      aux: (task, params) -> the method's shared section at the start.
      reduce: how every key of `aux` is reduced.
      probe: a pass at the global model before training; the mean of its `delta` is then
        shared["aux"]["probe"].
      needs: which of `labels`, `classes` and `features` the method needs.
      unused: keys that all clients have and this method does not use.
      shares: params (names, shapes) -> a bool per leaf, whether it travels; None: all do.
      personal: (shared, memory row) -> the client's personal variables.
      solo: whether a step passes twice through the model, so that its bits may depend on other runs
        that train at the same time.
      pools: the samples of all clients are trained on as those of a single one, for as many steps a
        round as one client takes, or the clients of a cohort together; None: they are not pooled.
      isolated: whether every client trains alone: nothing travels, and no shared model is trained.
      bank: the models that clients choose from; None: the server has a single one.
      sends: (rows of all clients `[M, ...]`, which of them have taken part `[M]`, the number of the
        client's row, the row) -> what the server sends ONE client in place of the shared
        parameters. Hooks find it as `row["sent"]`, and the client's own row as `row["own"]`.
      model: the scenario's model -> the model that is trained and scored in its place; the same one
        for the same model.
    """

    memory: Callable[[Shared, Key[Array, ""]], Tree]
    start: StartHook
    gradient: GradientHook
    step: StepHook
    finish: FinishHook
    aux: Callable[[Task, Tree], dict[str, Tree]] = lambda task, params: {}
    reduce: dict[str, Literal["mean", "sum_over_N"] | Reducer] = {}  # noqa: RUF012 (read only)
    probe: "Client | None" = None
    needs: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()
    shares: Callable[[Tree], Tree] | None = None
    personal: Callable[[Shared, Tree], Tree] | None = None
    solo: bool = False
    pools: Literal["client", "cohort"] | None = None
    isolated: bool = False
    bank: Bank | None = None
    sends: Callable[[Tree, Array, Array, Tree], Tree] | None = None
    model: Callable[[Model], Model] | None = None

    @property
    def not_federated(self) -> str:
        """Why the method is a baseline instead of a federated method; empty if it is federated.

        It is `pooled` or `alone`, as in the column of the same name.
        """
        if self.pools is not None:
            return POOLED
        return ALONE if self.isolated else ""
