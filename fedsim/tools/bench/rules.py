"""Aggregation rules on stacks of three sizes, compared with NumPy and with other libraries.

`fedsim doctor --bench` sets OPENBLAS_NUM_THREADS=1: otherwise the products of each tile are divided
among threads once more, and Krum in NumPy takes about twice as long.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.assemble import aggregate
from fedsim.engine.clock import compile_seconds
from fedsim.tools.bench.peers import FOREIGN, TOOLS, Peer, answer_of
from fedsim.tools.bench.plain_rules import NUMPY, RADIUS, F
from fedsim.tools.bench.timing import TRIALS, Announce, spread, timed

# Rows and columns: many parameters, many clients, and a small model of few clients.
SIZES = ((100, 1_000_000), (1000, 100_000), (30, 2410))
ENOUGH = 10_000_000  # numbers that a trial goes over: it calls a rule on a small stack repeatedly
MOST_CALLS = 100  # of a trial

LINKS: dict[str, list[Any]] = {
    "mean": ["mean"],
    "median": ["median"],
    "trimmed_mean": [{"kind": "trimmed_mean", "trim": F}],
    "mean_around_median": [{"kind": "mean_around_median", "f": F}],
    "phocas": [{"kind": "phocas", "f": F}],
    "krum": [{"kind": "krum", "f": F}],
    "multi_krum": [{"kind": "multi_krum", "f": F}],
    "bulyan": [{"kind": "bulyan", "f": F}],
    "monna": [{"kind": "monna", "f": F}],
    "geometric_median": ["geometric_median"],
    "centered_clipping": [{"kind": "centered_clipping", "radius": RADIUS}],
    "divide_and_conquer": [{"kind": "divide_and_conquer", "f": F}],
    "flame": ["flame"],
    "mix_neighbours": [{"kind": "mix_neighbours", "f": F}, "mean"],
}
LEAST_ROWS = {"bulyan": 4 * F + 3}


OURS = "fedsim"

# What is called without arguments, by rule.
Works = dict[str, Callable[[], Any]]


def bench_rules(
    announce: Announce,
    sizes: Sequence[tuple[int, int]] = SIZES,
    peers: Sequence[Peer] = (),
) -> Iterator[dict[str, Any]]:
    """Measure every rule, and the same by NumPy and by peers, in turn.

    Yields:
      two records a rule and size, and one more for every peer that has the rule.
    """
    peers = [peer for peer in peers if TOOLS[peer.tool].rules]
    versions = {peer.tool: {"version": peer.version} for peer in peers}
    for rows, columns in sizes:
        x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
        names = [name for name in LINKS if rows >= LEAST_ROWS.get(name, 1)]
        stack = jnp.asarray(x)
        ours: Works = {name: partial(_aggregate, name, stack) for name in names}
        of_numpy: Works = {name: partial(NUMPY[name], x) for name in names}
        works = {OURS: ours, "NumPy, two threads": of_numpy}
        compiling = {name: _compile_seconds(work) for name, work in ours.items()}
        turns = []
        for turn in range(1, TRIALS + 1):
            announce(f"rules of {rows} × {columns:,}, turn {turn}")
            turns.append(_turn(works, peers, x.shape))

        for name in compiling:
            workload = f"{name} {rows} × {columns:,}"
            seconds = {}
            for how, of_rules in turns[0].items():
                if name in of_rules:
                    seconds[how] = spread([turn[how][name] for turn in turns])
            for how, spent in seconds.items():
                record = {"workload": workload, "how": how, **spent}
                if how == OURS:
                    yield {**record, "compile_seconds": compiling[name]}
                else:
                    ratio = spent["seconds"] / seconds[OURS]["seconds"]
                    yield {**record, "times_lanes": ratio, **versions.get(how, {})}


def _turn(
    works: Mapping[str, Works], peers: Sequence[Peer], shape: tuple[int, ...]
) -> dict[str, dict[str, float]]:
    """Seconds of a call of every rule, by who has it and by rule."""
    calls = min(max(1, ENOUGH // math.prod(shape)), MOST_CALLS)
    of_turn = {}
    for how, of_rules in works.items():
        of_turn[how] = {name: _seconds(work, calls) for name, work in of_rules.items()}
    for peer in peers:
        program = str(FOREIGN / TOOLS[peer.tool].rules)
        command = [peer.python, program, *map(str, shape), str(calls)]
        of_turn[peer.tool] = answer_of(peer.tool, command)
    return of_turn


def _aggregate(name: str, stack: jax.Array) -> None:
    jax.block_until_ready(aggregate(LINKS[name], stack))


def _compile_seconds(work: Callable[[], Any]) -> float:
    """Seconds of compiling in a first call."""
    before = compile_seconds()
    work()
    return compile_seconds() - before


def _seconds(work: Callable[[], Any], calls: int) -> float:
    """Seconds of a call, the mean of some."""
    return timed(lambda: [work() for _ in range(calls)]) / calls
