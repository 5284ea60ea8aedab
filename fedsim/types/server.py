"""What the server does with a cohort's messages: stages change the stack, a rule reduces it to one tree."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float

from fedsim.tree import Tree
from fedsim.types.updates import Context, Updates, reported


def stateless(params: Tree, present: Bool[Array, " C"]) -> Tree:
    """The state of what has none."""
    return ()


Info = dict[Any, Any]
"""Numbers that a link reports by their names, a scalar each. In `rounds.csv`, integers are summed since the row before."""

Result = tuple[Tree, Tree, Info]
"""(aggregate, state, info)"""


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

    apply: Callable[[Updates, Tree, Context], tuple[Updates, Tree, Info]]
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    least: int = 1  # fewer reporting clients than this: the round is skipped
    name: str = ""
    after: Callable[[Tree, Info], Tree] | None = None  # as that of a row-wise stage


class Fold(NamedTuple):
    """A rule that is a sum, in the form that takes a cohort block by block."""

    zero: Callable[[Updates], Tree]  # any block of updates (its shapes) -> the sum over no rows
    add: Callable[[Tree, Updates, Context], Tree]  # (sum, a block of rows, context) -> sum
    finish: Callable[[Tree, Tree, Context], Result]  # (sum over the cohort, state, context) -> (aggregate, state, info)


class Rule(NamedTuple):
    """Stack -> one tree: the only place where the client axis collapses."""

    apply: Callable[[Updates, Tree, Context], Result]
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    least: int = 1  # fewer reporting clients than this: the round is skipped
    most: int | None = None  # more of them than this: likewise
    fold: Fold | None = None  # where the rule is a sum
    weights: Callable[[Updates], Float[Array, " K"]] = reported  # what `stats` and a `mean` of `aux` are averaged by
    needs: frozenset[str] = frozenset()  # `loss`: of every client at x, for which there is a pass before training
    client: tuple[str, dict[str, Any]] | None = None  # the method it belongs to, and what both must agree on
    evaluated: Callable[[Tree, Tree], Tree] | None = None  # (params, state) -> what is evaluated, where not params
    name: str = ""
