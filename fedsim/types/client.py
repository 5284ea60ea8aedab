"""How one client trains: hooks on the one local loop, and the message that it returns.

Every hook is written for ONE client; `fedsim.engine` batches them.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from jax import ShapeDtypeStruct
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
    # what a rule may weigh it by: ‖a_i‖₁ of FedNova, or the trace of FedAS's Fisher information
    effort: Float[Array, ""]


class LocalPhase(NamedTuple):
    """A part of a client's round, as `Client.phases` lists them.

    Attributes:
      name: what happens in it.
      steps: local steps that it takes; None: those that the scenario asks for, `client.steps` or
        epochs, which exactly one phase has.
      substeps: gradients that make up one of these steps.
      same_batch: whether the gradients of a step are on the same batch.
      held_out: share of a client's samples that this phase alone is dealt, the same ones in every
        round; its steps are then the batches of `steps` passes over them. At least one sample, and
        none of a client that has a single one.
      whole: whether its steps are the batches of `steps` passes over all samples that the client
        trains on (but those that `drop_last` leaves out).
    """

    name: str
    steps: int | None = None
    substeps: int = 1
    same_batch: bool = False
    held_out: float = 0.0
    whole: bool = False


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
      init: (task, params of one model, mask of the clients that can take part `[N]`, models k) ->
        state; its fields are `cluster` `[N]`, the model of every client, and `clusters`: how many
        are in use, the first.
      apply: (updates, work `[K]`, round, state) -> (state, parents `[k]`, the models that the
        updates count for `[K]`, columns of `rounds.csv`); model j goes on from where model
        `parents[j]` is. None: the groups never change.
      choose: (state, work `[K]`) -> the model that each client of a round trains `[K]`; None: that
        of its cluster.
      least: updates that must arrive in a round before there are groups; None: those of all
        clients, in every round.
    """

    init: Callable[[Task, Tree, Bool[Array, " N"], int], Any]
    apply: Callable[[Updates, Work, Any, Any], tuple[Any, Array, Array, dict]] | None = None
    choose: Callable[[Any, Work], Array] | None = None
    least: int | None = 1


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
      over_round: whether a mean is over all messages of the round, instead of those of the model.
      mix: (variables of the models `[k, ...]` before a round, after it, which models have moved
        `[k]`) -> those that the next round begins with; None: those after it.
    """

    models: int
    choice: "Client | None" = None
    grouping: Grouping | None = None
    over_round: bool = False
    mix: Callable[[Shared, Shared, Array], Shared] | None = None

    @property
    def regroups(self) -> bool:
        """Whether the server looks at all updates of a round to divide the clients anew."""
        return self.grouping is not None and self.grouping.apply is not None


class Part(NamedTuple):
    """The part of the model that ONE client trains and sends, of a few sizes (`work.level`).

    Attributes:
      trains: (params, work) -> a bool for every number of params, whether the client trains it: the
        mean of a number is over those who do.
      kept: params (arrays or shapes) -> for every leaf, how many of its numbers a client receives
        and sends, by level: a NumPy array `[levels]`, equal in all rounds.
    """

    trains: Callable[[Tree, Work], Tree]
    kept: Callable[[Tree], Tree]


class Gossip(NamedTuple):
    """How ONE node of a graph mixes what it holds with what its neighbours sent.

    A node's row is a dictionary of its model, `x`, and of what the method remembers. `before` is
    the row that the round began with, `trained` that after the training. What is mixed is
    Σ_j W_ij of the values that nodes sent, its own among them.

    Attributes:
      send: (before, trained, key) -> the values that it sends to all who hear it, and the bytes of
        a message, None for those of the values.
      receive: (before, trained, sent values, mixed values) -> its next row.
      rests: whether nodes keep what they trained and send nothing in a round without mixing; else
        its W is the identity.
      needs: which of `rows` (of W, that add up to one, as its columns do), `symmetric` (links that
        go both ways), `every_round` (a mixing), `one_step` (a round) and `samples` (at every node)
        the method needs.
      aggregator: (pipeline, memories, rows of the largest round) -> what mixes the rows of a round.
    """

    send: Callable[[Tree, Tree, Key[Array, ""]], tuple[Tree, Array | None]]
    receive: Callable[[Tree, Tree, Tree, Tree], Tree]
    needs: frozenset[str] = frozenset({"rows"})
    rests: bool = False
    aggregator: Callable[[Any, Any, int], Any] | None = None


class Travel(NamedTuple):
    """What goes down to ONE client, and comes up from it.

    Attributes:
      shares: params (names, shapes) -> a bool per leaf, whether it travels; None: all do.
      stats: what happens to running statistics: the server's are the mean of the clients', weighted
        as the rule does; or their variance is that of all clients' values together, by the same
        weights; or every client keeps its own, and none travel. Integers and truth values are those
        of the first client whose update counts.
      models: models that a client receives in a round.
      sends: (rows of all clients `[M, ...]`, which of them have taken part `[M]`, the number of the
        client's row, the row, key) -> what the server sends ONE client in place of the shared
        parameters. Hooks find it as `row["sent"]`, and the client's own row as `row["own"]`.
      instead: (params, or their shapes) -> what a client sends and receives instead of the leaves
        that are shared: the server makes the clients' models of those, and of what it receives it
        makes `Message.delta`. None: the shared leaves travel.
      resting: (shared, params) -> a bool `[]` per leaf, whether no client changes or sends it in
        this round; None: all leaves are trained in every round.
      part: which part of the model a client trains and sends, where clients have different ones;
        None: all of it.
    """

    shares: Callable[[Tree], Tree] | None = None
    stats: Literal["averaged", "pooled", "kept"] = "averaged"
    models: int = 1
    sends: Callable[[Tree, Array, Array, Tree, Key[Array, ""]], Tree] | None = None
    instead: Callable[[Tree], Tree] | None = None
    resting: Callable[[Shared, Tree], Tree] | None = None
    part: Part | None = None


class Scored(NamedTuple):
    """What is scored of ONE client, beside the shared model.

    Before its score a client may train: its personal variables take steps on its own training
    samples, at the full learning rate. Nothing of that is sent or remembered.

    Attributes:
      personal: (shared, memory row) -> the client's personal variables; None: it has none.
      tune_steps: local steps that it takes before a score; None: its variables are scored as they
        are.
      tune_step: one of them; None: that of plain local training.
      predict: (task, the client's personal variables, x `[B, ...]`, its own training samples x
        `[n, ...]`, y and mask `[n]`) -> outputs `[B, ...]`, in place of the model's where its
        personal variables are scored; None: the model's.
    """

    personal: Callable[[Shared, Tree], Tree] | None = None
    tune_steps: int | None = None
    tune_step: StepHook | None = None
    predict: Callable[[Task, Tree, Array, tuple], Array] | None = None


class Client(NamedTuple):
    """How ONE client trains: hooks on the one local loop (`engine.lanes`), which batches them.

    Attributes:
      memory: (shared at the start of the run, key) -> row.
      aux: (task, params) -> the method's shared section at the start.
      reduce: how every key of `aux` is reduced.
      probe: a pass at the global model before training; the mean of its `delta` is then
        shared["aux"]["probe"].
      needs: which of `labels`, `classes`, `features` and `softmax`, outputs that are its logits,
        the method needs; `solo`, where a step
        passes twice through the model, so that its bits may depend on other runs that train at the
        same time; and `no KEY` for a key that all clients have and this method does not use.
      phases: the parts of a client's round in order, where it has more than one or takes several
        gradients a step; the hooks read `work.phase` and `work.substep`. Batches of the phase that
        the scenario asks for are those of any other method; the others have their own.
      travel: what goes down and comes up.
      scored: what is scored of a client, beside the shared model.
      server: what stands in place of a server with one model: the models that clients choose from;
        how a node of a graph mixes; or of a baseline, how all train without a server. `alone`:
        every client trains by itself, nothing travels, and no shared model is trained. `client`
        and `cohort`: the samples of all clients are trained on as those of a single one, for as
        many steps a round as one client takes, or the clients of a cohort together.
      model: (the scenario's model, shapes of a batch of one sample) -> the model that is trained
        and scored in its place; the same one for the same model.
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
    phases: tuple[LocalPhase, ...] = ()
    travel: Travel = Travel()
    scored: Scored = Scored()
    server: Bank | Gossip | Literal["alone", "client", "cohort"] | None = None
    model: Callable[[Model, ShapeDtypeStruct], Model] | None = None

    @property
    def bank(self) -> Bank | None:
        """The models that clients choose from; None: the server has a single one."""
        return self.server if isinstance(self.server, Bank) else None

    @property
    def gossip(self) -> Gossip | None:
        """How a node of a graph mixes, of a method that needs a graph in place of a server."""
        return self.server if isinstance(self.server, Gossip) else None

    @property
    def not_federated(self) -> str:
        """Why the method is a baseline instead of a federated method; empty if it is federated.

        It is `pooled` or `alone`, as in the column of the same name.
        """
        if not isinstance(self.server, str):
            return ""
        return ALONE if self.server == ALONE else POOLED
