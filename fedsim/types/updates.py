"""What a cohort sends up in a round, and what else may be known about it."""

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from fedsim.tree import Tree
from fedsim.types.task import Shared


class Columns(NamedTuple):
    """The fields of `Updates`."""

    delta: Tree  # [K, ...] local minus start value of `params`
    stats: Tree  # [K, ...]
    aux: Tree  # [K, ...]
    arrived: Bool[Array, " K"]  # False: the row may hold anything
    samples: Float[Array, " K"]  # n_k
    count: Float[Array, " K"]  # times drawn
    loss: Float[Array, " K"]  # mean local loss at the start model; NaN unless something needs it
    steps: Float[Array, " K"]  # local steps that were taken
    effort: Float[Array, " K"]
    # [K, ...] rows that are stored for the senders whose messages arrive, by the stage that owns
    # them; a stage sees only its own
    memory: Tree
    bytes: Int[Array, " K"]  # of the full message, as it travels
    age: Int[Array, " K"]  # steps that the server took since it sent the start model


class Updates(Columns):
    """What a cohort of K clients sends up in one round, stacked on the leading axis."""

    @property
    def weight(self) -> Float[Array, " K"]:
        """Sample count n_k, 0 where nothing arrived."""
        return jnp.where(self.arrived, self.samples, 0)

    # A type checker would take this method for a private one, unlike that of a named tuple.
    if not TYPE_CHECKING:

        def _replace(self, **changes: Any) -> "Updates":
            """The updates with other fields.

            Raises:
              TypeError: for `weight`, which is computed.
            """
            if "weight" in changes:
                raise TypeError(
                    "updates.weight is arrived · samples: "
                    "replace `arrived` (Bool) or `samples` (Float)"
                )
            return super()._replace(**changes)


def reported(updates: Updates) -> Float[Array, " K"]:
    """Uniform weights: how often every client that reported was drawn, 0 for the others."""
    return updates.arrived * updates.count


def by_samples(updates: Updates) -> Float[Array, " K"]:
    """Weights by samples: sample count times how often drawn, 0 for those that did not report."""
    return updates.weight * updates.count


@runtime_checkable
class ServerLoss(Protocol):
    """Mean loss of a model over the server's own samples."""

    def __call__(
        self, params: Tree, batch: int | None = None, key: Key[Array, ""] | None = None
    ) -> Float[Array, ""]:
        """The loss over all of them, or over `batch` that `key` draws with replacement."""
        ...


class Mixing(NamedTuple):
    """How a schedule mixes the model of a round's only client with the server's."""

    params: Tree  # of the model that the client trained from
    share: Float[Array, ""]  # of the client's model in the next one


class Context(NamedTuple):
    """What stages and rules may know besides the updates."""

    key: Key[Array, ""]
    round: Int[Array, ""] | int
    N: Float[Array, ""]  # clients that can take part: those with samples
    lr: Float[Array, ""]
    shared: Shared  # what the server sent
    ids: Int[Array, " K"]
    malicious: Bool[Array, " K"]  # clients that the attacker controls
    reference: Tree | None = None  # the server's own update, where the rule `needs` it
    samples: Float[Array, ""] | float = 0.0  # of all clients together; 0: unknown
    state: Tree = ()  # of the row-wise stage, or of the rule's sum over rows, that reads it
    expected: Float[Array, ""] | float = 0.0  # clients that a round draws on average; 0: unknown
    expected_samples: Float[Array, ""] | float = 0.0  # of them together
    server: Tree = ()  # states of stages and rule, where an attack knows the defence
    server_loss: ServerLoss | None = None  # where the rule `needs` it
    mixing: Mixing | None = None  # of the round's only client, where the schedule mixes models
    # messages of each client that a round has on average; 0: unknown
    share: Float[Array, " K"] | float = 0.0
    marked: Bool[Array, " K"] | None = None  # clients whose rows a rule replaces by its own
    # [K, ...] for every number of a row, whether its client trains it; None: all train all
    trained: Tree | None = None
    scale: float = 1.0  # of A B, in a model with pairs
