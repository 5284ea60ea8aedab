"""What there is to learn: a model, a batch of samples, and both with a loss as a task."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import optax
from jaxtyping import Array, Bool, Float, Int, Key

from fedsim.tree import Tree

LOW_RANK = ("lora_A", "lora_B")  # names of the factors of a low-rank matrix A B
BASE = "base"  # name of a weight that has an adapter
MERGED_BYTES = "merged_bytes"  # what a rule reports that moves frozen leaves
MERGED = "merged"  # section of the variables: frozen leaves that the server moves

Shared = dict[str, Any]
"""What the server sends: `params` (stages, rule and optax act on it alone), `stats`, `aux`."""


class Forward(Protocol):
    """A pass through the model -> (outputs `[B, ...]`, stats after it).

    `mask` is True for real rows of the batch, and False for padding.
    """

    def __call__(
        self,
        variables: Tree,
        x: Array,
        *,
        mask: Bool[Array, " B"] | None = None,
        key: Key[Array, ""] | None = None,
        train: bool = False,
    ) -> tuple[Array, Tree]: ...


class Model(NamedTuple):
    """A network as two pure functions; `variables` = `{"params", "stats"}`."""

    init: Callable[[Key[Array, ""]], dict[str, Tree]]
    apply: Forward
    features: Callable[[Tree, Array], Array] | None = None  # (variables, x) -> last layer's input
    head: Callable[[Tree, Array], Array] | None = None  # (variables, features) -> outputs
    mixes_rows: bool = False  # whether rows of a batch see each other, and `mask` is ignored
    # patterns of the weights W that the model only uses in products x @ W, which it makes by
    # `models.dense.product` or `models.sequences.positionwise`: they may be factored
    products: tuple[str, ...] = ()
    # which axes of leaves are of hidden units: (name of a leaf, for every axis the units, or None);
    # position i along an axis belongs to unit i mod units. Units of zeros must change nothing
    hidden: tuple[tuple[str, tuple[int | None, ...]], ...] = ()
    # (key, params, P) -> start of P vectors `[P, width]`, which the model puts in front of every
    # sequence where its params have them as the leaf `prompt`
    prompt: Callable[[Key[Array, ""], Tree, int], Array] | None = None
    adapter: "Adapter | None" = None  # what is added to its weights
    # of a model that a client method makes of the scenario's (`Client.model`): (its drawn params,
    # start params of the scenario's model as a Python program passes them) -> those that the run
    # begins with. ValueError: for others
    begins: Callable[[Tree, Any], Tree] = lambda drawn, params: params
    origin: Any = None  # the network of another library that it was made of, `modules.Origin`


class Adapter(NamedTuple):
    """What is trained of a model whose other leaves are frozen.

    Attributes:
      init: (key, name, W) -> the leaves of ONE weight by name, with which it starts as W itself.
        None: no weight is adapted.
      apply: (W, leaves, factored=, key=) -> the adapted weight: an array, or where `factored` a
        `models.dense.Factored`; `key` is None but in training.
      leaves: names of the leaves that are trained; they may be the model's own.
      targets: patterns over the names of weights; None: all matrices.
      factored_only: whether `apply` must not be asked for an array.
      prompt: number of vectors that are trained, as the leaf `prompt`, in front of every sequence.
      rank: columns of A, of an adapter with a pair A B; 0: it has none.
      alpha: A B counts alpha/rank; None: alpha is the rank.
    """

    init: Callable[[Key[Array, ""], str, Array], dict[str, Array]] | None = None
    apply: Callable[..., Any] | None = None
    leaves: tuple[str, ...] = ()
    targets: Sequence[str] | None = None
    factored_only: bool = False
    prompt: int = 0
    rank: int = 0
    alpha: float | None = None

    def scale(self, rank: int) -> float:
        """Return what a pair A B of a rank counts."""
        return 1.0 if self.alpha is None else self.alpha / rank


class Batch(NamedTuple):
    """What one client sees in one local step; rows beyond `mask` are padding."""

    x: Array  # [B, ...]
    y: Array  # [B] or [B, ...]
    mask: Bool[Array, " B"]
    key: Key[Array, ""]
    step: Int[Array, ""]


Objective = Callable[[Tree, Array, Batch], Float[Array, " B"]]
"""(variables, outputs, batch) -> what is minimised in place of the loss, one value per row."""


class ValueAndGrad(Protocol):
    """((mean loss, stats), gradient of the mean loss, or of the mean of another objective)."""

    def __call__(
        self, variables: Tree, batch: Batch, objective: Objective | None = None
    ) -> tuple[tuple[Array, Tree], Tree]: ...


class PerSample(Protocol):
    """((loss of each row `[B]`, stats), gradient of each `[B, ...]`).

    Rows beyond the batch's mask have zeros. Each row is treated as a batch, with its own key.
    Refused for models whose rows see each other.
    """

    def __call__(
        self, variables: Tree, batch: Batch, objective: Objective | None = None
    ) -> tuple[tuple[Float[Array, " B"], Tree], Tree]: ...


def as_they_are(outputs: Array) -> Array:
    """Return outputs that are what the model predicts."""
    return outputs


class Loss(NamedTuple):
    """What a model learns by.

    Attributes:
      of: (outputs `[B, ...]`, y `[B, ...]`) -> the loss of each row `[B]`, or of each token
        `[B, T]`. The loss of a batch is the mean of its rows'. Without `of_set` it sees a row
        alone, whatever the others of the batch are.
      targets: what it is for: `classes`; `tokens`, a class for each; `numbers`; `sets` of labels, a
        0 or 1 for each; `times`, of an event or of the last look. Empty: whatever samples have.
      outputs: numbers that the model returns for a sample; None: one for each class, or as many as
        a target has.
      predicts: outputs -> what is predicted of targets that are numbers, by which they are scored.
      probabilities: whether the softmax of outputs is meant as the probabilities of classes.
      fault: (targets `[n, ...]`, a NumPy array) -> what is wrong with them; empty: nothing.
      class_weights: how much a sample counts by its class, `[C]`; or `balanced`, by the samples of
        all clients; or `balanced_by_client`, by those of each while it trains.
      of_set: only where the loss of a row depends on the other rows: (outputs `[n, ...]`, y
        `[n, ...]`, NumPy arrays) -> the loss of a whole set, which is no mean over parts of it. In
        batches for `of`, y is 0 in rows that do not count. Outputs are then predicted as they are.
      fitted: (targets of all clients' training samples, a NumPy array) -> the loss that is made of
        them; None: this one.
      model: model with `outputs` -> the one whose outputs `of` takes; None: the same.
    """

    of: Callable[[Array, Array], Float[Array, " B"]]
    targets: frozenset[str] = frozenset()
    outputs: int | None = None
    predicts: Callable[[Array], Array] = as_they_are
    probabilities: bool = False
    fault: Callable[[Any], str] | None = None
    class_weights: tuple[float, ...] | str | None = None
    of_set: Callable[[Any, Any], float] | None = None
    fitted: "Callable[[Any], Loss] | None" = None
    model: Callable[[Model], Model] | None = None

    def __call__(self, outputs: Array, y: Array) -> Float[Array, " B"]:
        """Return the loss of each row, or token."""
        return self.of(outputs, y)


class Task(NamedTuple):
    """What there is to learn and with what: the static half of every client hook."""

    value_and_grad: ValueAndGrad
    per_sample: PerSample
    apply: Forward
    loss: Loss
    # learning rate -> the client's optimiser
    optimizer: Callable[[Array], optax.GradientTransformation]
    # (learning rate of the round, local step) -> learning rate of the step
    rate: Callable[[Array, Array], Array]
    classes: int  # 0: regression
    features: Callable[[Tree, Array], Array] | None = None  # the model's, where it has them
    width: int = 0  # numbers that the features of a sample are; 0: the method needs none
    # (key, x of a batch) -> x that is trained on
    augment: Callable[[Key[Array, ""], Array], Array] | None = None


class Work(NamedTuple):
    """What is known about a client before it trains: scalars inside a hook, `[K]` in a plan."""

    id: Int[Array, ""]
    samples: Float[Array, ""]  # n_k
    # planned local steps; of several phases, those of the phase that the scenario asks for
    steps: Int[Array, ""]
    lr: Float[Array, ""]  # client learning rate; of the local step, where a schedule counts steps
    lr_sum: Float[Array, ""]  # Σ of the learning rates of the planned steps
    labels: Float[Array, " C"]  # samples of each class; empty unless the method `needs` it
    malicious: Bool[Array, ""]  # whether the attacker controls the client
    # one beyond the last gradient of each of the method's phases; empty for a method without
    phase_ends: Int[Array, " P"] | tuple[()] = ()
    phase: Any = ()  # of the local step, an index of `Client.phases`; only where it has any
    substep: Any = ()  # which of the gradients of its step this is, from 0
    # of a method with `Travel.part`: which of its sizes the client's part has, the largest first,
    # and the round that the client's start model was sent in, from 0
    level: Any = ()
    round: Any = ()
