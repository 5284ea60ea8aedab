"""Every codec on 100 messages of 1,000,000 numbers, compared with plain NumPy and a round of W1."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.hooks import make_link
from fedsim.assemble.stack_inputs import checked_links
from fedsim.bench.peers import Answering, Peer, answering
from fedsim.bench.plain_codecs import PLAIN, Plain
from fedsim.bench.timing import Announce, in_turn, timed
from fedsim.bench.workload import lanes
from fedsim.compose import FAMILIES, codec_stage, lift
from fedsim.engine.clock import compile_seconds
from fedsim.scenario import Scenario
from fedsim.scenario.reader import Document
from fedsim.study.words import call_of
from fedsim.types import Codec, Context, Updates

ROWS = 100
COLUMNS = 1_000_000
TRIALS = 3  # passes over all messages
MAX_SECONDS = 15.0  # after which there is no further pass
PLAIN_ROWS = 5  # messages of a pass in NumPy, which stand for all

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
    """Messages in blocks of one per lane."""

    blocks: list[tuple[Updates, Context]]
    params: Params  # of the model that they update
    width: int  # lanes


def bench_codecs(
    w1: Scenario,
    announce: Announce,
    rows: int = ROWS,
    columns: int = COLUMNS,
    peers: Sequence[Peer] = (),
) -> Iterator[dict[str, Any]]:
    """Measure a round of W1, then every codec encoding and decoding all messages.

    Messages are encoded as a round does it, lane by lane. A codec with a memory has it in every
    message. The payloads of a linear codec are summed, and the sum is decoded once. NumPy and peers
    do the same with a few messages, in turn with the passes over all of them, and their seconds are
    those of as many.

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

    messages = _messages(rows, columns, width)
    with answering(peers, "codecs") as others:
        for other in others:
            other.draw(min(rows, PLAIN_ROWS), columns)
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


def _messages(rows: int, columns: int, width: int) -> Messages:
    """Normally distributed messages; zeros fill up the last block."""
    divisors = [side for side in range(1, int(columns**0.5) + 1) if columns % side == 0]
    side = max(divisors)
    params = {"w": jnp.zeros((side, columns // side), jnp.float32)}

    rng = np.random.default_rng(0)
    blocks = []
    for first in range(0, rows, width):
        filled = min(width, rows - first)
        block = np.zeros((width, columns), np.float32)
        block[:filled] = rng.standard_normal((filled, columns), np.float32)
        delta = {"w": jnp.asarray(block.reshape(width, side, -1))}
        updates = _updates(delta, params, filled, width)
        blocks.append((updates, _context(params, rows, first, width)))
    return Messages(blocks, params, width)


def _updates(delta: dict[str, jax.Array], params: Params, filled: int, width: int) -> Updates:
    """A block of messages, of which the first `filled` are sent."""
    ones = jnp.ones(width, jnp.float32)
    return Updates(
        delta=delta,
        stats={},
        aux={},
        arrived=jnp.arange(width) < filled,
        samples=ones,
        count=ones,
        loss=ones,
        steps=ones,
        effort=ones,
        memory=(),
        bytes=jnp.full(width, tree.payload_bytes(params), jnp.int32),
        age=jnp.zeros(width, jnp.int32),
    )


def _context(params: Params, rows: int, first: int, width: int) -> Context:
    """What is known about a block of messages; `first`: the id of its first client."""
    return Context(
        key=jax.random.key(0),
        round=jnp.int32(1),
        N=jnp.float32(rows),
        lr=jnp.float32(1),
        shared={"params": params},
        ids=first + jnp.arange(width),
        malicious=jnp.zeros(width, bool),
    )


def _records(
    section: Mapping[str, Any], messages: Messages, rows: int, others: Sequence[Answering]
) -> Iterator[dict[str, Any]]:
    """The records of a codec: ours, NumPy's, the peers'. A trial is a pass over all messages."""
    kind = section["kind"]
    compiled_before = compile_seconds()
    send_all, message_bytes = _sender(codec_of(section), messages)
    send_all()
    compiling_seconds = compile_seconds() - compiled_before
    send_some = _plain_sender(PLAIN[kind], messages, min(rows, PLAIN_ROWS))
    send_some()

    times_some = rows / min(rows, PLAIN_ROWS)
    trials = {
        "fedsim": lambda: timed(send_all),
        "NumPy, one thread": lambda: timed(send_some) * times_some,
    }
    versions = {}
    for other in others:
        if kind in other.names:
            other.seconds(kind)  # its first call is not measured
            trials[other.peer.tool] = lambda other=other: other.seconds(kind) * times_some
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


def _sender(codec: Codec, messages: Messages) -> tuple[Callable[[], None], float]:
    """Compile a pass over all messages -> it, and the mean bytes of a message."""
    blocks, params, width = messages
    row_stage = codec_stage(codec)
    stage = lift(row_stage, width)
    updates, context = blocks[0]
    d = sum(leaf.size for leaf in params.values())

    def fresh_memory(id):
        return row_stage.memory(params, jax.random.fold_in(context.key, id))

    memory = jax.vmap(fresh_memory)(context.ids)

    @jax.jit
    def send(updates: Updates, context: Context, memory: Any) -> tuple[Any, jax.Array, Any]:
        arrived = stage.apply(updates._replace(memory=memory), (), context)[0]
        delta = arrived.delta
        if codec.linear:
            delta = jax.tree.map(lambda leaf: leaf.sum(0), delta)
        return delta, arrived.bytes, arrived.memory

    decode = jax.jit(lambda table: codec.decode(table, d))

    def send_all() -> None:
        total = None
        for updates, context in blocks:
            arrived = jax.block_until_ready(send(updates, context, memory))[0]
            if codec.linear:
                total = arrived if total is None else jax.tree.map(jnp.add, total, arrived)
        if codec.linear:
            jax.block_until_ready(decode(total))

    _, sent_bytes, _ = send(updates, context, memory)
    message_bytes = np.asarray(sent_bytes)[np.asarray(updates.arrived)]
    return send_all, float(message_bytes.mean())


def _plain_sender(plain: Plain, messages: Messages, rows: int) -> Callable[[], None]:
    """A pass over the first messages in NumPy."""
    blocks = [np.asarray(updates.delta["w"]) for updates, _ in messages.blocks]
    vectors = [row.ravel() for block in blocks for row in block][:rows]
    rng = np.random.default_rng(0)

    def send_some() -> None:
        arrived = [plain.send(vector, rng) for vector in vectors]
        if plain.decode is not None:
            plain.decode(np.sum(arrived, axis=0), len(vectors[0]))

    return send_some
