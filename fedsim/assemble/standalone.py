"""`fedsim.aggregate` and `fedsim.transmit`: stages and rules on a user's own stack.

They do what a round of a fresh server does.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.assemble.feasibility import at_most, bounds_of
from fedsim.assemble.hooks import StackShapes, check_link, make_link
from fedsim.assemble.links import Link, split_at_rule
from fedsim.assemble.programs import MAX_CACHED, HashableSection, hashable_sections
from fedsim.assemble.stack_inputs import (
    argument_error,
    as_server_loss,
    checked_links,
    losses_of,
    mask_of,
    weights_of,
)
from fedsim.assemble.stacks import (
    as_floats,
    in_types_of,
    like_a_row,
    message_bytes,
    stack_of,
)
from fedsim.clients import sgd
from fedsim.compose import fresh_rows, plain_context, server_step
from fedsim.engine.pipeline import Pipeline
from fedsim.errors import LinkError, OrderError, dotted
from fedsim.scenario.order import index_of_rule
from fedsim.scenario.reader import Document
from fedsim.scenario.scenario import Scenario
from fedsim.tree import Tree
from fedsim.types import (
    Codec,
    Context,
    RowStage,
    Rule,
    ServerLinks,
    ServerLoss,
    Stage,
    Updates,
)

# argument -> what a rule asks for with it
NEEDED = {
    "loss": "every client's loss",
    "reference": "the server's own update",
    "server_loss": "the loss of models on the server's own samples",
}


def aggregate(
    server: Any,
    deltas: Tree,
    *,
    weights: Any = None,
    seed: int = 0,
    reference: Tree | None = None,
    params: Tree | None = None,
    lr: float = 1.0,
    loss: Any = None,
    server_loss: Callable[[Tree], Any] | None = None,
) -> Tree:
    """Apply any server list to your own stacked updates: what a fresh server adds to the model.

    Args:
      server: a kind (`"median"`), a link (`{"kind": "krum", "f": 2}`), or a list of stages, one
        rule, and optimisers.
      deltas: updates stacked on the leading axis, a PyTree with leaves `[K, ...]` of numbers, an
        array, or a nested list; a leaf that is None stays None. Integers and booleans are computed
        in float64, half precision in float32.
      weights: sample counts `[K]`; 0 = did not report; 1 for everybody if left out.
      seed: the seed of rules and stages that draw.
      reference: the server's own update, a tree like a row, for rules that ask for it.
      params: the shared parameters, for links that look at them; zeros if left out.
      lr: client learning rate, for rules that use it.
      loss: every client's loss at the shared parameters `[K]`, for rules that ask for it.
      server_loss: parameters -> their loss on samples of the server's own, a scalar, for rules that
        ask for it; in JAX.

    Returns:
      One tree of the structure, float type and kind (NumPy or JAX) of a row; of integers and
      booleans in float64 (in JAX, float32 unless x64 is enabled).

    Raises:
      ScenarioError: for a list that cannot run, deltas that are no stack of numbers, fewer
        reporting rows than it needs, or nothing where it asks for losses or for the server's own
        update.

    >>> aggregate("median", [[1.0], [2.0], [30.0]]).tolist()
    [2.0]
    """
    prepared = _aggregation(_hashable_sections("aggregate", "server", "server", server))
    given = stack_of("aggregate", deltas)
    stack = as_floats(given)
    K = tree.rows(stack)
    inputs = RoundInputs(
        stack=stack,
        message_bytes=message_bytes(given),
        weights=weights_of("aggregate", weights, K),
        seed=seed,
        params=like_a_row("aggregate", "params", params, stack),
        reference=like_a_row("aggregate", "reference", reference, stack),
        server_loss=as_server_loss(server_loss),
        lr=lr,
        loss=losses_of(loss, K),
    )
    return in_types_of(given, _run(prepared, inputs))


def transmit(
    wire: Any,
    deltas: Tree,
    *,
    weights: Any = None,
    malicious: Any = None,
    seed: int = 0,
    params: Tree | None = None,
    defence: Any = "mean",
    reference: Tree | None = None,
    server_loss: Callable[[Tree], Any] | None = None,
) -> tuple[Tree, np.ndarray]:
    """Send your own stacked updates over any wire list: what arrives, and how many bytes it takes.

    Args:
      wire: a kind, a link, or a list of attacks and stages.
      deltas: as in `aggregate`.
      weights: sample counts `[K]`; 0 = does not take part.
      malicious: mask `[K]` (or ids) of the rows an attack controls; nobody if left out.
      seed: the seed of links that draw.
      params: the shared parameters; zeros if left out.
      defence: a server list, for attacks that know what they attack: its stages and its rule,
        fresh.
      reference: for a defence that asks for it, as in `aggregate`.
      server_loss: likewise.

    Returns:
      The updates as they arrive, stacked as they were, in the types that `aggregate` returns, and
      the bytes of each client's message `[K]`; a codec encodes numbers of 32 bits.

    Raises:
      ScenarioError: for a list that cannot run, fewer reporting rows than it needs, or nothing
        where the defence asks for the server's own update or loss.

    >>> updates = [[1.0, 2.0], [3.0, 4.0]]
    >>> arrived, sent = transmit({"kind": "sign_flip", "scale": 2}, updates, malicious=[1])
    >>> arrived.tolist(), sent.tolist()
    ([[1.0, 2.0], [-6.0, -8.0]], [8, 8])
    """
    prepared = _transmission(
        _hashable_sections("transmit", "wire", "wire", wire),
        _hashable_sections("transmit", "server", "defence", defence),
    )
    given = stack_of("transmit", deltas)
    stack = as_floats(given)
    K = tree.rows(stack)
    is_encoded = any(isinstance(link.made, Codec) for link in prepared.links)
    inputs = RoundInputs(
        stack=stack,
        message_bytes=message_bytes(stack if is_encoded else given),
        weights=weights_of("transmit", weights, K),
        seed=seed,
        params=like_a_row("transmit", "params", params, stack),
        reference=like_a_row("transmit", "reference", reference, stack),
        server_loss=as_server_loss(server_loss),
        malicious=mask_of(malicious, K),
    )
    arrived, sent_bytes = _run(prepared, inputs)
    return in_types_of(given, arrived), np.asarray(sent_bytes, np.int64)


class RoundInputs(NamedTuple):
    """A stack, and what its caller passes about the round; None for what is left out."""

    stack: Tree  # [K, ...], of float32 or float64
    message_bytes: int  # of a row before the wire
    weights: np.ndarray  # [K]
    seed: int
    params: Tree | None = None
    reference: Tree | None = None
    server_loss: ServerLoss | None = None
    malicious: np.ndarray | None = None  # [K]
    lr: float = 1.0
    loss: np.ndarray | None = None  # [K]


class Prepared(NamedTuple):
    """A list of links, ready for stacks of any shape."""

    command: str  # `aggregate` or `transmit`, which errors name in place of a file
    links: list[Link]
    function: Callable[[Updates, Context], Any]  # compiled
    rule_argument: str  # the argument that brings the rule
    needs: frozenset[str]  # arguments that the rule cannot do without


@functools.lru_cache(MAX_CACHED)
def _aggregation(server: tuple[HashableSection, ...]) -> Prepared:
    """The links of a fresh server, behind an empty wire; made once for each list."""
    links, server_links = _make_server_links("aggregate", "server", server)
    rule = server_links.rule
    pipeline = Pipeline([], server_links, sgd(), drops_nonfinite=False)
    optimiser = server_step(*server_links.optimisers)

    def reduce(updates: Updates, context: Context) -> Tree:
        _check_hooks("aggregate", links, updates, context)
        updates, state = _fresh_round(pipeline, pipeline.remembering, updates, context)
        travelled, reduced = pipeline.apply(updates, state, lambda phase: context)
        params = context.shared["params"]
        step, _ = optimiser.apply(reduced.aggregate, optimiser.init(params), params)
        skipped = pipeline.skips(jnp.sum(travelled.staged.arrived))
        return tree.select(skipped, tree.zeros_like(step), step)

    return Prepared(
        command="aggregate",
        links=links,
        function=jax.jit(reduce),
        rule_argument="server",
        needs=rule.needs & NEEDED.keys(),
    )


@functools.lru_cache(MAX_CACHED)
def _transmission(
    wire: tuple[HashableSection, ...], defence: tuple[HashableSection, ...]
) -> Prepared:
    """The links of a wire, before the defence of a server list; made once for each pair."""
    links = _make_links("transmit", "wire", wire)
    _, server_links = _make_server_links("transmit", "defence", defence)
    rule = server_links.rule
    defending = server_links._replace(steps=[])
    pipeline = Pipeline(_decoding_each(links), defending, sgd(), drops_nonfinite=False)

    remembering = {
        name: link for name, link in pipeline.remembering.items() if name in pipeline.wire_names
    }

    def send(updates: Updates, context: Context) -> tuple[Tree, jax.Array]:
        _check_hooks("transmit", links, updates, context)
        updates, state = _fresh_round(pipeline, remembering, updates, context)
        arrived, _, _, _ = pipeline.arrive(updates, state, lambda phase: context)
        return arrived.delta, arrived.bytes

    # The rule runs only where an attack aims at it; `transmit` takes no losses of clients.
    needs = rule.needs & (NEEDED.keys() - {"loss"}) if pipeline.aims else frozenset()
    return Prepared(
        command="transmit",
        links=links,
        function=jax.jit(send),
        rule_argument="defence",
        needs=needs,
    )


def _fresh_round(
    pipeline: Pipeline,
    remembering: Mapping[str, Stage | RowStage],
    updates: Updates,
    context: Context,
) -> tuple[Updates, Any]:
    """The updates with the rows of clients that never took part, and the first state of the links.

    Args:
      remembering: those whose rows the updates get, by name.
    """
    updates = updates._replace(memory=fresh_rows(remembering, context))
    state = pipeline.init(context.shared["params"], jnp.ones_like(updates.arrived))
    return updates, state


def _decoding_each(links: Sequence[Link]) -> list[Any]:
    """What the links made, with codecs that decode every payload, not their sum."""
    made = []
    for link in links:
        if isinstance(link.made, Codec):
            made.append(link.made._replace(linear=False))
        else:
            made.append(link.made)
    return made


def _hashable_sections(
    command: str, section: str, argument: str, links: Any
) -> tuple[HashableSection, ...]:
    """The checked sections of a list that a user wrote, as keys of a cache."""
    return hashable_sections(checked_links(command, section, argument, links))


def _make_links(command: str, argument: str, sections: Sequence[HashableSection]) -> list[Link]:
    scenario = _empty_scenario(command)
    links = []
    for i, hashable in enumerate(sections):
        path = (argument, i)
        section = hashable.section
        try:
            links.append(Link(path, section, make_link(scenario, path, section)))
        except LinkError as error:
            raise scenario.error(path, str(error)) from error
    return links


def _make_server_links(
    command: str, argument: str, sections: Sequence[HashableSection]
) -> tuple[list[Link], ServerLinks]:
    """Make the links of a server list, all of them and by what they do."""
    try:
        rule_index = index_of_rule([hashable.section for hashable in sections])
    except OrderError as error:
        path = (argument,) if error.index is None else (argument, error.index)
        raise argument_error(command, dotted(path), str(error)) from None
    links = _make_links(command, argument, sections)
    return links, split_at_rule([link.made for link in links], rule_index)


def _empty_scenario(command: str) -> Scenario:
    """An empty scenario, whose errors name the command in place of a file."""
    return Scenario(None, Document({}, {}, command))


def _check_hooks(command: str, links: list[Link], updates: Updates, context: Context) -> None:
    """Check a user's links while their list is compiled, so once for a shape."""
    shapes = StackShapes(updates, context, present=updates.arrived)
    for link in links:
        check_link(_empty_scenario(command), link, shapes, types=False)


def _require_needs(prepared: Prepared, inputs: RoundInputs) -> None:
    """Refuse to leave out an argument that the rule asks for."""
    for name in sorted(prepared.needs):
        if getattr(inputs, name) is None:
            text = f"a rule of the list asks for {NEEDED[name]}; pass {name}="
            raise argument_error(prepared.command, prepared.rule_argument, text)


def _require_rows(prepared: Prepared, weights: np.ndarray) -> None:
    """Refuse fewer reporting rows than a link needs, or more than it can take.

    No rows at all change nothing, and are allowed.
    """
    rows = int((weights > 0).sum())
    for link in prepared.links:
        section = link.section
        least = getattr(link.made, "least", 1)
        most = link.made.most if isinstance(link.made, Rule) else None
        is_too_few = 0 < rows < least
        is_too_many = most is not None and rows > most
        if not is_too_few and not is_too_many:
            continue

        scenario = _empty_scenario(prepared.command)
        bounds = bounds_of(section)
        path = (*link.path, *bounds[:1])
        if is_too_few:
            text = f"{_call(section, bounds)}: {rows} rows reported, at least {least} are needed"
            remedy = "give more rows"
            if bounds:
                remedy = f"lower {' or '.join(bounds)}, or give more rows"
            raise scenario.error(path, f"{text}; {remedy}")
        assert most is not None
        text = f"{at_most(section, most)}, and {rows} rows reported"
        raise scenario.error(path, f"{text}; lower f, or give fewer rows")


def _call(section: Any, names: list[str]) -> str:
    """A link and some of its hyper-parameters, as `krum(f=2)`."""
    if not names:
        return section.kind
    values = [f"{name}={getattr(section, name)}" for name in names]
    return f"{section.kind}({', '.join(values)})"


def _run(prepared: Prepared, inputs: RoundInputs) -> Any:
    """Run the compiled links in the float type of the stack; NumPy in, NumPy out."""
    _require_rows(prepared, inputs.weights)
    _require_needs(prepared, inputs)

    leaves = jax.tree.leaves(inputs.stack)
    is_numpy = not any(isinstance(leaf, jax.Array) for leaf in leaves)
    is_double = any(np.dtype(leaf.dtype) == np.float64 for leaf in leaves)
    dtype = np.float64 if is_double else np.float32
    with jax.enable_x64(is_double):
        inputs = inputs._replace(stack=jax.tree.map(_as_jax, inputs.stack))
        result = prepared.function(_updates(inputs, dtype), _context(inputs, dtype))
        return jax.tree.map(np.asarray, result) if is_numpy else result


def _as_jax(leaf: Any) -> jax.Array:
    """An array of JAX, of which `jnp.asarray` would make another object."""
    return leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)


# NumPy makes everything but the stack: every operation of JAX would be one more program to compile.
# It is typed as Any because `Updates` and `Context` annotate their fields as JAX arrays.
numpy: Any = np


def _updates(inputs: RoundInputs, dtype: type) -> Updates:
    K = tree.rows(inputs.stack)
    weights = numpy.asarray(inputs.weights, dtype)
    ones = numpy.ones(K, dtype)
    if inputs.loss is None:
        loss = numpy.full(K, np.nan, dtype)
    else:
        loss = numpy.asarray(inputs.loss, dtype)
    return Updates(
        delta=inputs.stack,
        stats={},
        aux={},
        arrived=weights > 0,
        samples=weights,
        count=ones,
        loss=loss,
        steps=ones,
        effort=ones,
        memory=(),
        bytes=numpy.full(K, inputs.message_bytes, np.int32),
        age=numpy.zeros(K, np.int32),
    )


def _context(inputs: RoundInputs, dtype: type) -> Context:
    """What links may know about the first round of a fresh server with K clients."""
    K = tree.rows(inputs.stack)
    if inputs.params is None:
        params = _zero_row(inputs.stack)
    else:
        params = jax.tree.map(jnp.asarray, inputs.params)
    number: Any = dtype
    context = plain_context(_key(inputs.seed, dtype), params, numpy.arange(K), dtype)
    if inputs.malicious is not None:
        context = context._replace(malicious=numpy.asarray(inputs.malicious))
    return context._replace(
        lr=number(inputs.lr),
        reference=jax.tree.map(jnp.asarray, inputs.reference),
        expected=number(K),
        expected_samples=numpy.asarray(inputs.weights, dtype).sum(),
        share=numpy.ones(K, dtype),
        marked=numpy.zeros(K, bool),
        server_loss=inputs.server_loss,
    )


@functools.lru_cache(MAX_CACHED)
def _key(seed: int, dtype: type) -> Any:
    """The key of a seed, which takes JAX longer to make than a small stack to aggregate.

    Seeds of more than 32 bits have other keys in float64.
    """
    del dtype
    with jax.ensure_compile_time_eval():  # also where a caller compiles `aggregate`
        return jax.random.key(seed)


def _zero_row(stack: Tree) -> Tree:
    """Zeros like a row of a stack: [K, ...] -> [...]."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), stack)
