"""What the server does with a cohort's messages: stages change the stack, a rule reduces it to one tree."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Int, Key

from fedsim.tree import Tree
from fedsim.types.updates import Context, Updates, reported


def stateless(params: Tree, present: Bool[Array, " C"]) -> Tree:
    """The state of what has none."""
    return ()


Info = dict[Any, Any]
"""Numbers that a link reports by their names, a scalar each. In `rounds.csv`, integers are summed since the row before."""


class Size(NamedTuple):
    """8 · bytes + bits: of a message that may have more bits than an int32 can count."""

    bytes: Int[Array, ""]
    bits: Int[Array, ""]


Bits = int | Int[Array, ""] | Size
"""Of a message: a Python integer where they are known beforehand."""

Shapes = tuple[tuple[int, ...], ...]
"""Of the leaves of a tree, in its order."""

Result = tuple[Tree, Tree, Info]
"""(aggregate, state, info)"""


def forgetful(params: Tree, key: Key[Array, ""]) -> Tree:
    """The row of a client for whom a stage remembers nothing."""
    return ()


def no_row(x: Array) -> Tree:
    """The row of a sender whose codec remembers nothing."""
    return ()


class RowStage(NamedTuple):
    """Stack -> stack, written for ONE row: `Updates` and `Context` without their K axis. The engine vmaps it.

    A stage with a memory finds the client's row as `memory`, and leaves the next one there; it counts where the message arrives.
    A stage with a state reads it as `context.state`, the same for all rows of a round; what `measure` says of the rows that
    arrived, before `apply` changes them, is put together (integers and truth values as sums, floats as means) and makes
    the next one.
    """

    apply: Callable[[Updates, Context], Updates]
    name: str = ""
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    measure: Callable[[Updates, Context], Info] | None = None
    after: Callable[[Tree, Info], Tree] | None = (
        None  # (state, info of the round) -> state; not where no row arrived
    )
    memory: Callable[[Tree, Key[Array, ""]], Tree] = (
        forgetful  # (params at the start of the run, key) -> a client's row
    )


class Codec(NamedTuple):
    """What a message is turned into for its way, for ONE vector `[d]`: the `params` of a message, raveled.

    A linear codec is one whose payloads may be summed in place of the vectors: its rule sums payloads, and `decode` is
    applied once, to what the rule made of them. A server that remembers something of earlier rounds takes `server` for it,
    (payload, state, context) -> (vector `[d]`, state, info), and `decode` where a payload is read for another purpose.

    Receivers have zeros at the start of the run, and the start model where a server sends its own. What a receiver remembers
    of earlier messages is part of the payload here and counts no bits: sender and receiver compute the same memory. Of
    such a codec `recursive` says that a receiver needs every message since its last one.
    """

    encode: Callable[
        [Array, Tree, Key[Array, ""]], tuple[Tree, Bits, Tree]
    ]  # (x, memory, key) -> (payload, bits, memory)
    decode: Callable[[Tree, int], Array]  # (payload, d) -> what an honest receiver makes of it
    memory: Callable[[Array], Tree] = (
        no_row  # what receivers have `[d]` at the start of the run -> the sender's row
    )
    most: Callable[[int], int] | None = None  # d -> the most bits, where they depend on x
    linear: bool = False
    server: "AggregateStage | None" = None
    recursive: bool = False
    entropy: Callable[[Tree, int], Array] | None = (
        None  # (payload, d) -> bits of it behind an entropy code
    )
    shaped: Callable[[Shapes], Any] | None = (
        None  # shapes of the leaves behind x -> the codec that encodes each apart
    )
    name: str = ""


Bound = Callable[[Int[Array, ""], Int[Array, ""]], Float[Array, ""]]
"""(rows n, malicious rows among them) -> κ of (f, κ)-robustness; NaN where nothing is known."""


class Stage(NamedTuple):
    """Stack -> stack, in the form that sees all rows."""

    apply: Callable[[Updates, Tree, Context], tuple[Updates, Tree, Info]]
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    least: int = 1  # fewer reporting clients than this: the round is skipped
    name: str = ""
    after: Callable[[Tree, Info], Tree] | None = None  # as that of a row-wise stage
    memory: Callable[[Tree, Key[Array, ""]], Tree] = forgetful  # likewise
    bound: Callable[[Bound], Bound] | None = (
        None  # of what follows -> of both together, where one is published
    )


OWN_SAMPLES = frozenset({"reference", "server_loss"})
"""What a rule may need that takes samples of the server's own."""

Defence = Callable[[Updates, Context], Tree]
"""(the stack as an attack would send it, context) -> what stages and rule of the round would make of it."""


class Aim(NamedTuple):
    """An attack that knows the defence: made a stage when it is known what it attacks."""

    aim: Callable[[Defence], Stage]
    name: str = ""


class Fold(NamedTuple):
    """A rule that is a sum, in the form that takes a cohort block by block."""

    zero: Callable[[Updates], Tree]  # any block of updates (its shapes) -> the sum over no rows
    add: Callable[[Tree, Updates, Context], Tree]  # (sum, a block of rows, context) -> sum
    finish: Callable[
        [Tree, Tree, Context], Result
    ]  # (sum over the cohort, state, context) -> (aggregate, state, info)


class Rule(NamedTuple):
    """Stack -> one tree: the only place where the client axis collapses."""

    apply: Callable[[Updates, Tree, Context], Result]
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    least: int = 1  # fewer reporting clients than this: the round is skipped
    most: int | None = None  # more of them than this: likewise
    fold: Fold | None = None  # where the rule is a sum
    linear: bool = False  # a sum of rows whose weights do not depend on them: it may sum what the rows are encoded as
    weights: Callable[[Updates], Float[Array, " K"]] = (
        reported  # what `stats` and a `mean` of `aux` are averaged by
    )
    needs: frozenset[str] = (
        frozenset()
    )  # `loss`: of every client at the global model, by a pass before training; else see Context:
    # `expected`, `share`, `reference`, `server_loss`
    client: tuple[str, dict[str, Any]] | None = (
        None  # the method it belongs to, and what both must agree on
    )
    evaluated: Callable[[Tree, Tree], Tree] | None = (
        None  # (params, state) -> what is evaluated, where not params
    )
    bound: Bound | None = None  # published: see `fedsim.rules.bounds`
    before: RowStage | None = (
        None  # what it does to every row first, behind all stages; its memory of a client is the
    )
    # server's: it counts where the rule counts the row, in a round that is not skipped
    name: str = ""


class AggregateStage(NamedTuple):
    """Aggregate -> aggregate, between rule and optimisers; runs in every round that is not skipped."""

    apply: Callable[
        [Tree, Tree, Context], Result
    ]  # (aggregate, state, context) -> (aggregate, state, info)
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    name: str = ""
