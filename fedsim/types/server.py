"""What the server does with messages: stages change the stack, a rule reduces it to one tree."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Int, Key

from fedsim.tree import Tree
from fedsim.types.updates import Context, Updates, reported


def stateless(params: Tree, present: Bool[Array, " C"]) -> Tree:
    """The state of a link that has none."""
    return ()


Info = dict[Any, Any]
"""Scalars that a link reports, by name; `rounds.csv` sums integers since the row before."""


class Size(NamedTuple):
    """8 · bytes + bits, for a message that may have more bits than an int32 can count."""

    bytes: Int[Array, ""]
    bits: Int[Array, ""]


Bits = int | Int[Array, ""] | Size
"""Bits of a message: a Python integer where they do not depend on its values."""

Shapes = tuple[tuple[int, ...], ...]
"""Shapes of the leaves of a tree, in its order."""

Result = tuple[Tree, Tree, Info]
"""(aggregate, state, info)"""


def forgetful(params: Tree, key: Key[Array, ""]) -> Tree:
    """The row of a client for whom a stage remembers nothing."""
    return ()


def no_row(x: Array) -> Tree:
    """The row of a sender whose codec remembers nothing."""
    return ()


class RowStage(NamedTuple):
    """Stack -> stack, written for ONE row: `Updates` and `Context` without their K axis.

    The engine vmaps it. A stage with a memory finds the client's row as `memory`, and leaves the
    next one there, which is stored if the message arrives. A stage with a state reads it as
    `context.state`, the same for all rows of a round. What `measure` returns for the rows that
    arrived, before `apply` changes them, is combined (integers and truth values as sums, floats as
    means), and `after` makes the next state of it.
    """

    apply: Callable[[Updates, Context], Updates]
    name: str = ""
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    measure: Callable[[Updates, Context], Info] | None = None
    # (state, info of the round) -> state; not called where no row arrived
    after: Callable[[Tree, Info], Tree] | None = None
    # (params at the start of the run, key) -> a client's row
    memory: Callable[[Tree, Key[Array, ""]], Tree] = forgetful
    noises: bool = False  # whether its noise makes an update private before the client sends it


class Codec(NamedTuple):
    """How a message travels: it encodes ONE vector `[d]`, the `params` of a message, raveled.

    The payloads of a linear codec may be summed in place of the vectors: its rule sums payloads,
    and `decode` is applied once, to what the rule made of them. A server that remembers something
    of earlier rounds uses `server` for it, (payload, state, context) -> (vector `[d]`, state,
    info), and `decode` where a payload is read for another purpose.

    Payloads may be integers that wrap when they are summed: then a codec says by `wraps` how often,
    and the rule's weights are whole numbers, which a client can multiply its payload by.

    Receivers have zeros at the start of the run, or the start model where the server sends its
    model. What a receiver remembers of earlier messages is part of the payload here and counts no
    bits: sender and receiver compute the same memory.

    Attributes:
      encode: (x, memory, key) -> (payload, bits, memory).
      decode: (payload, d) -> what an honest receiver makes of it `[d]`.
      memory: what receivers have at the start of the run `[d]` -> the sender's row.
      most: d -> the most bits, where they depend on x.
      wraps: of a linear codec whose payloads are integers modulo 2^b: the sum of payloads -> in how
        many coordinates it left the range.
      recursive: whether a receiver needs every message since its last one.
      entropy: (payload, d) -> bits of the payload behind an entropy code.
      shaped: shapes of the leaves behind x -> the codec that encodes each leaf apart.
    """

    encode: Callable[[Array, Tree, Key[Array, ""]], tuple[Tree, Bits, Tree]]
    decode: Callable[[Tree, int], Array]
    memory: Callable[[Array], Tree] = no_row
    most: Callable[[int], int] | None = None
    linear: bool = False
    server: "AggregateStage | None" = None
    wraps: Callable[[Tree], Int[Array, ""]] | None = None
    recursive: bool = False
    entropy: Callable[[Tree, int], Array] | None = None
    shaped: Callable[[Shapes], Any] | None = None
    name: str = ""


Bound = Callable[[Int[Array, ""], Int[Array, ""]], Float[Array, ""]]
"""(rows n, malicious rows among them) -> κ of (f, κ)-robustness; NaN where nothing is known."""


class Stage(NamedTuple):
    """Stack -> stack, in the form that sees all rows."""

    apply: Callable[[Updates, Tree, Context], tuple[Updates, Tree, Info]]
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    least: int = 1  # fewer reporting clients than this: the round is skipped
    name: str = ""
    after: Callable[[Tree, Info], Tree] | None = None  # as in a `RowStage`
    memory: Callable[[Tree, Key[Array, ""]], Tree] = forgetful  # likewise
    # bound of what follows -> bound of both together, where one is published
    bound: Callable[[Bound], Bound] | None = None


Defence = Callable[[Updates, Context], Tree]
"""(the stack as an attack would send it, context) -> what stages and rule would make of it."""


class Aim(NamedTuple):
    """An attack that knows the defence: it becomes a stage once it is known what it attacks."""

    aim: Callable[[Defence], Stage]
    name: str = ""


class Fold(NamedTuple):
    """A rule that is a sum, in the form that takes a cohort block by block."""

    zero: Callable[[Updates], Tree]  # any block of updates (its shapes) -> the sum over no rows
    # (sum, a block of rows, context) -> sum; `context.state` is the rule's at the round's start
    add: Callable[[Tree, Updates, Context], Tree]
    # (sum over the cohort, state, context) -> (aggregate, state, info)
    finish: Callable[[Tree, Tree, Context], Result]
    # whether it is a sum of rows with weights that do not depend on the rows, so that it may sum
    # what the rows are encoded as; the first entry of its sum is that sum
    linear: bool = False


class AdapterLeaves(NamedTuple):
    """What a rule does with the leaves of an adapter.

    Attributes:
      leaves: those that the rule is about, by name; clients must send them.
      freezes: patterns over the names of leaves that nobody trains, under this rule; of several
        entries, each holds for a round, in turn.
      merges: patterns over the names of frozen leaves that the rule moves. They are the server's
        then, `shared["merged"]`: its aggregate has them besides what clients send, and so has what
        steps and optimisers see. Clients begin every round with adapters of their own draw.
    """

    leaves: tuple[str, ...] = ()
    freezes: tuple[tuple[str, ...], ...] = ()
    merges: tuple[str, ...] = ()


class Rule(NamedTuple):
    """Stack -> one tree: the only place where the client axis collapses.

    Attributes:
      least: fewer reporting clients than this: the round is skipped.
      most: more of them than this: likewise.
      fold: the rule as a sum, where it is one.
      weights: what `stats` and a `mean` of `aux` are averaged by.
      needs: `loss`, of every client at the global model, by a pass before training; and fields of
        `Context`: `expected`, `share`, `reference`, `server_loss`.
      client: the client method that the rule belongs to, and the hyper-parameters that both share.
      evaluated: (params, state) -> what is evaluated in place of the params.
      bound: as published; see `fedsim.rules.bounds`.
      before: what the rule does to every row first, behind all stages. The server remembers its
        memory of a client where the rule counts the client's row, in a round that is not skipped.
      adapter: what it does with the leaves of an adapter.
      noises: whether what it makes of every round has noise, by which a budget is counted.
    """

    apply: Callable[[Updates, Tree, Context], Result]
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    least: int = 1
    most: int | None = None
    fold: Fold | None = None
    weights: Callable[[Updates], Float[Array, " K"]] = reported
    needs: frozenset[str] = frozenset()
    client: tuple[str, dict[str, Any]] | None = None
    evaluated: Callable[[Tree, Tree], Tree] | None = None
    bound: Bound | None = None
    before: RowStage | None = None
    adapter: AdapterLeaves = AdapterLeaves()
    noises: bool = False
    name: str = ""


class AggregateStage(NamedTuple):
    """Aggregate -> aggregate, between rule and optimisers, in every round that is not skipped."""

    # (aggregate, state, context) -> (aggregate, state, info)
    apply: Callable[[Tree, Tree, Context], Result]
    init: Callable[[Tree, Bool[Array, " C"]], Tree] = stateless  # (params, present) -> state
    name: str = ""


class ServerLinks(NamedTuple):
    """What a server does with the messages of a round, one after another."""

    stages: list[Stage | RowStage]
    rule: Rule
    steps: list[AggregateStage]  # between rule and optimisers
    optimisers: Sequence[Any] = ()
