"""Aggregation rules on stacks of three sizes, compared with NumPy and with other libraries.

`fedsim doctor --bench` sets OPENBLAS_NUM_THREADS=1: otherwise the products of each tile are divided
among threads once more, and Krum in NumPy takes about twice as long.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.assemble import aggregate
from fedsim.engine.clock import compile_seconds
from fedsim.tools.bench.peers import Answering, Peer, answering
from fedsim.tools.bench.plain_rules import NUMPY, RADIUS, F
from fedsim.tools.bench.timing import Announce, in_turn, timed

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


def bench_rules(
    announce: Announce,
    sizes: Sequence[tuple[int, int]] = SIZES,
    peers: Sequence[Peer] = (),
) -> Iterator[dict[str, Any]]:
    """Measure every rule, and the same by NumPy and by peers.

    Args:
      announce: called with what is measured next.
      sizes: rows and columns of the stacks.
      peers: other libraries.

    Yields:
      two records a rule and size, and one more for every peer that has the rule.
    """
    with answering(peers, "rules") as others:
        for rows, columns in sizes:
            x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
            stack = jnp.asarray(x)
            for other in others:
                other.draw(rows, columns)
            calls = min(max(1, ENOUGH // x.size), MOST_CALLS)
            for name in LINKS:
                if rows < LEAST_ROWS.get(name, 1):
                    continue
                announce(f"{name} of {rows} × {columns:,}")
                workload = f"{name} {rows} × {columns:,}"
                for record in _records(name, x, stack, calls, others):
                    yield {"workload": workload, **record}


def _records(
    name: str, x: np.ndarray, stack: jax.Array, calls: int, others: Sequence[Answering]
) -> Iterator[dict[str, Any]]:
    """The records of a rule: ours, NumPy's, the peers'. A trial is the mean of some calls."""

    def mean_seconds(work: Callable[[], Any]) -> float:
        return timed(lambda: [work() for _ in range(calls)]) / calls

    def by_fedsim() -> float:
        return mean_seconds(lambda: jax.block_until_ready(aggregate(LINKS[name], stack)))

    def by_numpy() -> float:
        return mean_seconds(lambda: NUMPY[name](x))

    compiled_before = compile_seconds()
    aggregate(LINKS[name], stack).block_until_ready()
    compiling_seconds = compile_seconds() - compiled_before

    trials = {"fedsim": by_fedsim, "NumPy, two threads": by_numpy}
    versions = {}
    for other in others:
        if name in other.names:
            other.seconds(name)  # its first call is not measured
            trials[other.peer.tool] = partial(other.seconds, name, calls)
            versions[other.peer.tool] = other.peer.version

    seconds = in_turn(trials)
    ours = seconds.pop("fedsim")
    yield {"how": "fedsim", **ours, "compile_seconds": compiling_seconds}
    for how, theirs in seconds.items():
        ratio = theirs["seconds"] / ours["seconds"]
        record = {"how": how, **theirs, "times_lanes": ratio}
        if how in versions:
            record["version"] = versions[how]
        yield record
