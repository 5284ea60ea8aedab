"""The nouns: what flows through the house, and the pairs of pure functions that it flows through.

Shape letters: N clients, K cohort (slots), L lanes, B batch, T lane steps, R rounds, D parameters, W start models in a
bank. In every rule, reducer and sampling weight, N counts the clients that can take part, which are those with samples;
`present` is the mask of them over all ids. Everything that computes is a pair `(init, apply)`, in the order
`(input, state, context) -> (output, state, info)`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Int, Key

from fedsim.tree import Tree

Shared = dict[str, Any]
"""What the server sends: `params` (stages, rule and optax act here alone), `stats` (averaged statistics), `aux`."""

Reducer = Callable[..., Tree]
"""(task, old, shared, aggregate, pace) -> new `aux`: by what was sent, what the rule returned before any optimizer behind
it, and the clients' mean Σ of learning rates."""


class Model(NamedTuple):
    """A network as two pure functions; `variables` = `{"params", "stats"}`; `mask`: True = a real row of the batch."""

    init: Callable[[Key[Array, ""]], dict[str, Tree]]
    apply: Callable[..., tuple[Array, Tree]]  # (variables, x, *, mask, key, train) -> (outputs, stats)
    features: Callable[..., Array] | None = None
    head: Callable[..., Array] | None = None
    mixes_rows: bool = False  # whether rows of a batch see each other, and `mask` is not honoured


class Batch(NamedTuple):
    """What one client sees in one local step; rows beyond `mask` are padding."""

    x: Array  # [B, ...]
    y: Array  # [B] or [B, ...]
    mask: Bool[Array, " B"]
    key: Key[Array, ""]
    step: Int[Array, ""]


class Work(NamedTuple):
    """What a job knows about its client beforehand: scalars inside a hook, `[K]` in a plan."""

    id: Int[Array, ""]
    samples: Float[Array, ""]  # n_k
    steps: Int[Array, ""]  # planned local steps
    lr: Float[Array, ""]  # client learning rate (of the local step, where it has a schedule)
    lr_sum: Float[Array, ""]  # Σ of the learning rates of the planned steps
    labels: Float[Array, " C"]  # samples of each class; empty unless the method `needs` it


class Task(NamedTuple):
    """What there is to learn and with what: the static half of every client hook."""

    # (variables, batch, objective=None) -> ((mean loss, stats), gradient of the loss, or of another mean objective)
    value_and_grad: Callable[..., tuple[tuple[Array, Tree], Tree]]  # objective: (variables, outputs, batch) -> [B]
    apply: Callable[..., tuple[Array, Tree]]
    loss: Callable[[Array, Array], Float[Array, " B"]]  # (outputs, y) -> loss per row
    optimizer: Callable[[Array], Any]  # learning rate -> optax.GradientTransformation
    rate: Callable[[Array, Array], Array]  # (learning rate of the round, local step) -> that of the step
    classes: int  # 0: not a classification
    features: Callable[..., Array] | None = None  # (variables, x) -> what the last layer sees, where the model tells


class Message(NamedTuple):
    """What a client returns: the three sections, its memory row, and the effort it took (‖a_i‖₁ of FedNova)."""

    delta: Tree
    stats: Tree
    aux: Tree
    memory: Tree
    effort: Float[Array, ""]


class Client(NamedTuple):
    """How ONE client trains: hooks on the one local loop (`engine.lanes`), which batches them."""

    memory: Callable[[Shared, Key[Array, ""]], Tree]  # (shared at the start of the run, key) -> row
    start: Callable[..., tuple[Tree, Tree]]  # (task, shared, row, work) -> (variables, local)
    gradient: Callable[..., tuple[tuple[Array, Tree], Tree]]  # (task, variables, batch, local, shared, work)
    step: Callable[..., tuple[Tree, Tree]]  # (task, gradient, params, local, shared, work) -> (params, local)
    finish: Callable[..., Message]  # (task, shared, variables, local, row, work) -> message
    aux: Callable[[Task, Tree], dict] = lambda task, params: {}  # the method's own shared section at the start
    reduce: dict[str, Any] = {}  # noqa: RUF012 (read only); aux key -> `mean`, `sum_over_N`, or a `Reducer`
    probe: "Client | None" = None  # a pass at x before training; the mean of its `delta` is shared["aux"]["probe"] then
    needs: frozenset[str] = frozenset()  # of `labels`, `classes`, `features`
    unused: frozenset[str] = frozenset()  # keys that all clients have, and this method makes no use of
    solo: bool = False  # passes twice through the model in a step: its bits may depend on other runs beside it


class Updates(NamedTuple):
    """What a cohort of K clients sends up in one round, stacked on the leading axis."""

    delta: Tree  # [K, ...] local minus start value of `params`
    stats: Tree  # [K, ...]
    aux: Tree  # [K, ...]
    weight: Float[Array, " K"]  # sample count n_k; 0 = nothing arrived from this client
    count: Float[Array, " K"]  # times drawn
    loss: Float[Array, " K"]  # mean local loss at the start model; NaN unless somebody needs it
    steps: Float[Array, " K"]  # local steps really taken
    effort: Float[Array, " K"]


class Context(NamedTuple):
    """What stages and rules may know beside the updates."""

    key: Key[Array, ""]
    round: Int[Array, ""] | int
    N: Float[Array, ""]  # clients that can take part: those with samples
    lr: Float[Array, ""]
    shared: Shared  # what the server sent
    ids: Int[Array, " K"]
    malicious: Bool[Array, " K"]  # clients that the attacker controls
    reference: Tree | None = None  # update of the server's own data
    samples: Float[Array, ""] | float = 0.0  # of all clients together; 0: unknown


class Fold(NamedTuple):
    """A rule that is a sum, in the form that takes a cohort block by block."""

    zero: Callable[[Updates], Tree]  # any block of updates (its shapes) -> accumulator
    add: Callable[[Tree, Updates, Context], Tree]
    finish: Callable[[Tree, Tree, Context], tuple[Tree, Tree, dict]]  # (accumulator, state, context)


def stateless(params: Tree, present: Bool[Array, " C"]) -> Tree:
    """The state of what has none."""
    return ()


def reported(updates: Updates) -> Float[Array, " K"]:
    """Uniform weights: the times drawn of every client that reported, 0 for the others."""
    return (updates.weight > 0) * updates.count


def by_samples(updates: Updates) -> Float[Array, " K"]:
    """Weights by samples: the sample count times the times drawn, 0 for clients that did not report."""
    return updates.weight * updates.count


class RowStage(NamedTuple):
    """Stack -> stack, written for ONE row: `Updates` and `Context` without their K axis. The engine vmaps it."""

    apply: Callable[[Updates, Context], Updates]
    name: str = ""


class Stage(NamedTuple):
    """Stack -> stack, in the form that sees all rows."""

    apply: Callable[[Updates, Tree, Context], tuple[Updates, Tree, dict]]
    init: Callable[[Tree, Array], Tree] = stateless  # (params, present) -> state
    least: int = 1  # fewer reporting clients than this: the round is skipped
    name: str = ""


class Rule(NamedTuple):
    """Stack -> one tree: the only place where the client axis collapses."""

    apply: Callable[[Updates, Tree, Context], tuple[Tree, Tree, dict]]
    init: Callable[[Tree, Array], Tree] = stateless  # (params, present) -> state
    least: int = 1  # fewer reporting clients than this: the round is skipped
    fold: Fold | None = None  # where the rule is a sum
    weights: Callable[[Updates], Float[Array, " K"]] = reported  # what `stats` and a `mean` of `aux` are averaged by
    needs: frozenset[str] = frozenset()  # `loss`: of every client at x, for which there is a pass before training
    client: tuple[str, dict[str, Any]] | None = None  # the method it belongs to, and what both must agree on
    evaluated: Callable[[Tree, Tree], Tree] | None = None  # (params, state) -> what is evaluated, where not params
