"""Every codec on 100 messages of 1,000,000 numbers, compared with plain NumPy and a round of W1."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.hooks import make_link
from fedsim.assemble.layout import width_of
from fedsim.assemble.stack_inputs import checked_links
from fedsim.clients.sgd import sgd
from fedsim.compose import FAMILIES, fresh_rows, in_parts, plain_context, plain_updates
from fedsim.engine.clock import compile_seconds
from fedsim.engine.pack import Width
from fedsim.engine.pipeline import Pipeline, ProcessedRows
from fedsim.rules.mean import mean
from fedsim.scenario import Scenario
from fedsim.scenario.reader import Document
from fedsim.study.words import call_of
from fedsim.tools.bench.peers import Answering, Peer, answering
from fedsim.tools.bench.plain_codecs import PLAIN, Plain, receiver
from fedsim.tools.bench.timing import Announce, in_turn, timed
from fedsim.tools.bench.workload import lanes
from fedsim.tree import Tree
from fedsim.types import Codec, Context, ServerLinks, Updates

ROWS = 100
COLUMNS = 1_000_000
TRIALS = 3  # passes over all messages
MAX_SECONDS = 15.0  # after which there is no further pass
SLOW = {"product_quantise": 5}  # messages of a pass in NumPy and in peers, which stand for all

# Hyper-parameters of kinds whose defaults are missing, or are meant for short messages.
SPARSE = {"density": 0.01}
PARAMETERS: dict[str, dict[str, Any]] = {
    "top_k": SPARSE,
    "rand_k": SPARSE,
    "threshold": {"value": 2.5},
    "lazy": {"probability": 0.5},
    "count_sketch": {"rows": 5, "columns": 10_000},
    "low_rank": {"rank": 4},
    "error_feedback": {"codec": {"kind": "top_k", **SPARSE}},
    "ef21": {"codec": {"kind": "top_k", **SPARSE}},
    "diana": {"codec": {"kind": "rand_k", **SPARSE}, "alpha": 0.01},
}

Params = dict[str, jax.Array]


class Messages(NamedTuple):
    """The messages of a round, in its blocks."""

    blocks: list[tuple[Updates, Context]]
    params: Params  # of the model that they update
    width: Width


def bench_codecs(
    w1: Scenario,
    announce: Announce,
    rows: int = ROWS,
    columns: int = COLUMNS,
    peers: Sequence[Peer] = (),
) -> Iterator[dict[str, Any]]:
    """Measure a round of W1, then every codec on all messages.

    What is measured is what a round does with the messages of its clients, with the round's own
    links and widths: each is encoded and decoded, those that are not finite are left out, the
    others are added to the rule's sum (`mean(weights: uniform)`), block by block, and the sum is
    divided by their number. The payloads of a linear codec are summed, and the sum is decoded. A
    codec with a memory reads and writes a row of it for every message.

    NumPy and peers do the same message by message, as one writes it by hand, and look for nothing
    that is not finite. They are in turn with the passes over all messages. Where they have fewer,
    their seconds are those of as many.

    Args:
      w1: the scenario that codecs are compared with.
      announce: called with what is measured next.
      rows: messages.
      columns: numbers in each: a square matrix, as nearly as possible.
      peers: other libraries.

    Yields:
      a record for W1, then two for every codec, and one more for every peer that has the codec.
    """
    with numerics(w1) as devices:
        announce(f"{w1.spec.name}: a round")
        experiment = build(w1, devices=devices)
        seconds, _, details = lanes(experiment)
        width = experiment.program.width.lanes
        yield {"workload": w1.spec.name, "how": f"lanes ({width})", **seconds, **details}

    messages = _messages(w1, rows, columns)
    with answering(peers, "codecs") as others:
        for kind in sorted(FAMILIES["codec"]):
            section = {"kind": kind, **PARAMETERS.get(kind, {})}
            announce(f"{call_of(section)} of {rows} × {columns:,}")
            for record in _records(section, messages, rows, others):
                yield {
                    "workload": f"{kind} {rows} × {columns:,}",
                    **record,
                    "times_lanes": record["seconds"] / seconds["seconds"],
                }


def codec_of(section: Mapping[str, Any]) -> Codec:
    """Return the codec that a section describes."""
    (checked_section,) = checked_links("bench", "wire", "wire", dict(section))
    scenario = Scenario(None, Document({}, {}, "bench"))
    return make_link(scenario, ("wire", 0), checked_section)


def _messages(scenario: Scenario, rows: int, columns: int) -> Messages:
    """Normally distributed messages, in blocks as of a round of the scenario with such a model."""
    divisors = [side for side in range(1, int(columns**0.5) + 1) if columns % side == 0]
    side = max(divisors)
    params = {"w": jnp.zeros((side, columns // side), jnp.float32)}
    width = width_of(scenario.spec.numerics, tree.nbytes(params), 0, rows)

    # Zeros fill up the last block.
    rng = np.random.default_rng(0)
    blocks = []
    for first in range(0, rows, width.block):
        filled = min(width.block, rows - first)
        block = np.zeros((width.block, columns), np.float32)
        block[:filled] = rng.standard_normal((filled, columns), np.float32)
        updates = plain_updates(
            delta={"w": jnp.asarray(block.reshape(width.block, side, -1))},
            arrived=jnp.arange(width.block) < filled,
            samples=jnp.ones(width.block, jnp.float32),
        )
        size = jnp.full(width.block, tree.payload_bytes(params), jnp.int32)
        updates = updates._replace(bytes=size)
        ids = first + jnp.arange(width.block)
        context = plain_context(jax.random.key(0), params, ids, jnp.float32)
        blocks.append((updates, context._replace(N=jnp.float32(rows))))
    return Messages(blocks, params, width)


def _records(
    section: Mapping[str, Any], messages: Messages, rows: int, others: Sequence[Answering]
) -> Iterator[dict[str, Any]]:
    """The records of a codec: ours, NumPy's, the peers'. A trial is a pass over all messages."""
    kind = section["kind"]
    compiled_before = compile_seconds()
    receive_all, message_bytes = _receiver(codec_of(section), messages)
    compiling_seconds = compile_seconds() - compiled_before

    some = min(rows, SLOW.get(kind, rows))
    receive_some = _plain_receiver(PLAIN[kind], messages, some)
    receive_some()
    trials = {
        "fedsim": lambda: timed(receive_all),
        "NumPy, one thread": lambda: timed(receive_some) * (rows / some),
    }
    versions = {}
    columns = sum(leaf.size for leaf in jax.tree.leaves(messages.params))
    for other in others:
        other.draw(some, columns)
        if kind in other.names:
            other.seconds(kind)  # its first call is not measured
            trials[other.peer.tool] = lambda other=other: other.seconds(kind) * (rows / some)
            versions[other.peer.tool] = other.peer.version

    measured = in_turn(trials, TRIALS, MAX_SECONDS)
    ours = measured.pop("fedsim")
    yield {
        "how": call_of(section),
        **ours,
        "compile_seconds": compiling_seconds,
        "message_bytes": message_bytes,
    }
    for how, theirs in measured.items():
        record = {"how": how, **theirs, "times_ours": theirs["seconds"] / ours["seconds"]}
        if how in versions:
            record["version"] = versions[how]
        yield record


def _receiver(codec: Codec, messages: Messages) -> tuple[Callable[[], Tree], float]:
    """Compile what a round does with all messages -> it, and the mean bytes of a message."""
    pipeline = Pipeline(
        wire=[codec],
        server=ServerLinks(stages=[], rule=mean(weights="uniform"), steps=[]),
        client=sgd(),
        drops_nonfinite=True,
        width=messages.width.lanes,
    )
    fold = pipeline.reducing.fold
    assert fold is not None
    state = pipeline.init(messages.params, present=True)

    def process(memory: Tree, updates: Updates, context: Context) -> ProcessedRows:
        return pipeline.process(updates._replace(memory=memory), state, lambda phase: context)

    @jax.jit
    def read(memory: Tree, context: Context) -> Tree:
        """Return the rows of a block's clients, as a round reads them from those of all."""
        return tree.take(memory, context.ids - context.ids[0])

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def add(total: Tree, memory: Tree, remembered: Tree, updates: Updates, context: Context):
        """Add a block -> the sum, what its clients remember, and the bytes of its messages."""

        def add_part(carry, part):
            total, memory = carry
            remembered, updates, ids, malicious, slots = part
            of_part = context._replace(ids=ids, malicious=malicious)
            rows = process(remembered, updates, of_part)
            delta = jax.lax.optimization_barrier(rows.staged.delta)
            total = fold.add(total, rows.staged._replace(delta=delta), of_part)
            return (total, tree.put(memory, slots, rows.staged.memory)), rows.arrived.bytes

        slots = jnp.arange(len(context.ids))
        block = (remembered, updates, context.ids, context.malicious, slots)
        parts = pipeline.parts(messages.width.block)
        (total, memory), bytes = in_parts(add_part, (total, memory), block, parts)
        return total, memory, bytes

    @jax.jit
    def finish(total: Tree, context: Context) -> Tree:
        apply_rule = lambda rule_state, context: fold.finish(total, rule_state, context)
        contexts = lambda phase: context
        return pipeline.reduce(apply_rule, state, state, info={}, contexts=contexts).aggregate

    memories = [fresh_rows(pipeline.remembering, context) for _, context in messages.blocks]
    shapes = jax.eval_shape(process, memories[0], *messages.blocks[0])
    zero = fold.zero(tree.zeros_like(shapes.staged))
    sizes = []

    def receive_all() -> Tree:
        sizes.clear()
        total = jax.tree.map(jnp.copy, zero)
        for block, (updates, context) in enumerate(messages.blocks):
            remembered = read(memories[block], context)
            total, memories[block], bytes = add(
                total, memories[block], remembered, updates, context
            )
            sizes.append(bytes[updates.arrived])
        mean_message = finish(total, messages.blocks[0][1])
        return jax.block_until_ready((mean_message, memories))[0]

    receive_all()
    return receive_all, float(np.concatenate(sizes).mean())


def _plain_receiver(plain: Plain, messages: Messages, rows: int) -> Callable[[], np.ndarray]:
    """The same with the first messages in NumPy."""
    blocks = [np.asarray(updates.delta["w"]) for updates, _ in messages.blocks]
    vectors = [row.ravel() for block in blocks for row in block][:rows]
    return receiver(plain, vectors)
