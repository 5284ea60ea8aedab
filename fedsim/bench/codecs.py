"""Every registered codec on 100 messages of 1,000,000 numbers, beside the training of a round of W1."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.hooks import make_link
from fedsim.assemble.stack_inputs import checked_links
from fedsim.bench.workload import lanes, spread, timed
from fedsim.compose import FAMILIES, lift, transmitted
from fedsim.engine.clock import compile_seconds
from fedsim.scenario import Scenario
from fedsim.scenario.reader import Document
from fedsim.study.words import call_of
from fedsim.types import Codec, Context, Updates

ROWS, COLUMNS = 100, 1_000_000
TRIALS, SECONDS = 3, 15.0  # passes over all messages; after so long no further one
SPARSE = {"density": 0.01}
PARAMETERS: dict[
    str, dict[str, Any]
] = {  # of kinds whose defaults are none, or are for short messages
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


def bench_codecs(
    w1: Scenario, say: Callable[[str], None], rows: int = ROWS, columns: int = COLUMNS
) -> Iterator[dict[str, Any]]:
    """Seconds of a round of W1, then of every codec to encode and decode all messages as a round does, lane by lane.

    A codec with a memory has it in every message. Of a linear one payloads are summed, and the sum is decoded once.

    Args:
      w1: the scenario beside which codecs stand.
      say: called with what is measured next.
      rows: messages.
      columns: numbers in each: a square matrix, as nearly as may be.
    """
    with numerics(w1) as devices:
        say(f"{w1.spec.name}: a round")
        experiment = build(w1, devices=devices)
        seconds, _, run = lanes(experiment)
        width = experiment.program.width.lanes
        yield {"workload": w1.spec.name, "how": f"lanes ({width})", **seconds, **run}
    blocks, params = _messages(rows, columns, width)
    for kind in sorted(FAMILIES["codec"]):
        section = {"kind": kind, **PARAMETERS.get(kind, {})}
        say(f"{call_of(section)} of {rows} × {columns:,}")
        record = _measured(codec_of(section), blocks, params, width)
        times = record["seconds"] / seconds["seconds"]
        yield {
            "workload": f"{kind} {rows} × {columns:,}",
            "how": call_of(section),
            **record,
            "times_lanes": times,
        }


def codec_of(section: Mapping[str, Any]) -> Codec:
    """The codec that a section describes."""
    (link,) = checked_links("wire", dict(section))
    return make_link(Scenario(None, Document({}, {}, "bench")), ("wire", 0), link)


def _messages(
    rows: int, columns: int, width: int
) -> tuple[list[tuple[Updates, Context]], dict[str, jax.Array]]:
    """Normally distributed messages in blocks of one per lane, the last one filled up with zeros; and parameters."""
    side = max(side for side in range(1, int(columns**0.5) + 1) if columns % side == 0)
    rng, blocks = np.random.default_rng(0), []
    params = {"w": jnp.zeros((side, columns // side), jnp.float32)}
    one = jnp.ones(width, jnp.float32)
    for first in range(0, rows, width):
        block = np.zeros((width, columns), np.float32)
        filled = min(width, rows - first)
        block[:filled] = rng.standard_normal((filled, columns), np.float32)
        updates = Updates(
            delta={"w": jnp.asarray(block.reshape(width, side, -1))},
            stats={},
            aux={},
            arrived=jnp.arange(width) < filled,
            samples=one,
            count=one,
            loss=one,
            steps=one,
            effort=one,
            memory=(),
            bytes=jnp.full(width, tree.payload_bytes(params), jnp.int32),
            age=jnp.zeros(width, jnp.int32),
        )
        context = Context(
            key=jax.random.key(0),
            round=jnp.int32(1),
            N=jnp.float32(rows),
            lr=jnp.float32(1),
            shared={"params": params},
            ids=first + jnp.arange(width),
            malicious=jnp.zeros(width, bool),
        )
        blocks.append((updates, context))
    return blocks, params


def _measured(
    codec: Codec, blocks: list[tuple[Updates, Context]], params: dict[str, jax.Array], width: int
) -> dict[str, Any]:
    """Seconds of a pass over all blocks, of compiling, and the bytes of a message, mean over the first block."""
    row, context = transmitted(codec), blocks[0][1]
    stage = lift(row, width)
    memory = jax.vmap(lambda id: row.memory(params, jax.random.fold_in(context.key, id)))(
        context.ids
    )

    @jax.jit
    def send(updates: Updates, context: Context, memory: Any) -> tuple[Any, jax.Array, Any]:
        updates = stage.apply(updates._replace(memory=memory), (), context)[0]
        delta = (
            jax.tree.map(lambda leaf: leaf.sum(0), updates.delta) if codec.linear else updates.delta
        )
        return delta, updates.bytes, updates.memory

    decode = jax.jit(lambda table: codec.decode(table, sum(leaf.size for leaf in params.values())))

    def play() -> None:
        total = None
        for updates, context in blocks:
            arrived = jax.block_until_ready(send(updates, context, memory))[0]
            if codec.linear:
                total = arrived if total is None else jax.tree.map(jnp.add, total, arrived)
        if codec.linear:
            jax.block_until_ready(decode(total))

    compiling = compile_seconds()
    arrived, sent, _ = jax.block_until_ready(send(*blocks[0], memory))
    if codec.linear:
        jax.block_until_ready(decode(arrived))
    sizes = np.asarray(sent)[np.asarray(blocks[0][0].arrived)]
    compiling, began, taken = compile_seconds() - compiling, time.perf_counter(), []
    while len(taken) < TRIALS and (not taken or time.perf_counter() - began < SECONDS):
        taken.append(timed(play))
    return {**spread(taken), "compile_seconds": compiling, "message_bytes": float(sizes.mean())}
