"""What the server does with a cohort's messages: stages change the stack, a rule reduces it to one tree."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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
    loss: Float[Array, " K"]  # mean local loss at the start model; NaN unless somebody needs it
    steps: Float[Array, " K"]  # local steps really taken
    effort: Float[Array, " K"]


class Updates(Columns):
    """What a cohort of K clients sends up in one round, stacked on the leading axis."""

    @property
    def weight(self) -> Float[Array, " K"]:
        """Sample count n_k, 0 where nothing arrived."""
        return jnp.where(self.arrived, self.samples, 0)

    if not TYPE_CHECKING:  # a method of this name would be private to a type checker, that of a named tuple is not

        def _replace(self, **changes: Any) -> "Updates":
            """The same with other fields.

            Raises:
              TypeError: for `weight`, which is computed.
            """
            if "weight" in changes:
                raise TypeError("updates.weight is arrived · samples: replace `arrived` (Bool) or `samples` (Float)")
            return super()._replace(**changes)


def reported(updates: Updates) -> Float[Array, " K"]:
    """Uniform weights: the times drawn of every client that reported, 0 for the others."""
    return updates.arrived * updates.count


def by_samples(updates: Updates) -> Float[Array, " K"]:
    """Weights by samples: the sample count times the times drawn, 0 for clients that did not report."""
    return updates.weight * updates.count


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
    state: Tree = ()  # of the row-wise stage that reads it


def stateless(params: Tree, present: Bool[Array, " C"]) -> Tree:
    """The state of what has none."""
    return ()


class ApplyStage(Protocol):
    """Stack -> (stack, state, info)."""

    def __call__(self, updates: Updates, state: Tree, context: Context) -> tuple[Updates, Tree, "Info"]: ...


class ApplyRule(Protocol):
    """Stack -> (aggregate, state, info)."""

    def __call__(self, updates: Updates, state: Tree, context: Context) -> tuple[Tree, Tree, "Info"]: ...


Info = dict[Any, Any]
"""Numbers that a link reports by their names, a scalar each. In `rounds.csv`, integers are summed since the row before."""


class RowStage(NamedTuple):
    """Stack -> stack, written for ONE row: `Updates` and `Context` without their K axis. The engine vmaps it.

    A stage with a state reads it as `context.state`, the same for all rows of a round; what `measure` says of the rows that
    arrived, before `apply` changes them, is put together (integers and truth values as sums, floats as means) and makes
    the next one.
    """

    apply: Callable[[Updates, Context], Updates]
    name: str = ""
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    measure: Callable[[Updates, Context], Info] | None = None
    after: Callable[[Tree, Info], Tree] | None = None  # (state, info of the round) -> state; not where no row arrived


class Stage(NamedTuple):
    """Stack -> stack, in the form that sees all rows."""

    apply: ApplyStage
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    least: int = 1  # fewer reporting clients than this: the round is skipped
    name: str = ""
    after: Callable[[Tree, Info], Tree] | None = None  # as that of a row-wise stage


class AddBlock(Protocol):
    """The sum with a block of rows added."""

    def __call__(self, total: Tree, updates: Updates, context: Context) -> Tree: ...


class FinishTotal(Protocol):
    """The sum over the cohort -> (aggregate, state, info)."""

    def __call__(self, total: Tree, state: Tree, context: Context) -> tuple[Tree, Tree, Info]: ...


class Fold(NamedTuple):
    """A rule that is a sum, in the form that takes a cohort block by block."""

    zero: Callable[[Updates], Tree]  # any block of updates (its shapes) -> the sum over no rows
    add: AddBlock
    finish: FinishTotal


class Rule(NamedTuple):
    """Stack -> one tree: the only place where the client axis collapses."""

    apply: ApplyRule
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    least: int = 1  # fewer reporting clients than this: the round is skipped
    fold: Fold | None = None  # where the rule is a sum
    weights: Callable[[Updates], Float[Array, " K"]] = reported  # what `stats` and a `mean` of `aux` are averaged by
    needs: frozenset[str] = frozenset()  # `loss`: of every client at x, for which there is a pass before training
    client: tuple[str, dict[str, Any]] | None = None  # the method it belongs to, and what both must agree on
    evaluated: Callable[[Tree, Tree], Tree] | None = None  # (params, state) -> what is evaluated, where not params
    name: str = ""
