"""Aggregation rules on stacks of three sizes, compared with NumPy in tiles on two threads.

`tests/peers/rules.py` compares them with other libraries.

`fedsim bench` sets OPENBLAS_NUM_THREADS=1: otherwise the products of each tile are divided among
threads once more, and Krum in NumPy takes about twice as long.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.assemble import aggregate
from fedsim.bench.plain_rules import NUMPY, RADIUS, F
from fedsim.bench.timing import TRIALS, Announce, spread, timed
from fedsim.engine.clock import compile_seconds

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
    announce: Announce, sizes: Sequence[tuple[int, int]] = SIZES
) -> Iterator[dict[str, Any]]:
    """Measure every rule, and the same by NumPy.

    Args:
      announce: called with what is measured next.
      sizes: rows and columns of the stacks.

    Yields:
      two records a rule and size.
    """
    for rows, columns in sizes:
        x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
        stack = jnp.asarray(x)
        for name, links in LINKS.items():
            if rows < LEAST_ROWS.get(name, 1):
                continue
            workload = f"{name} {rows} × {columns:,}"
            announce(f"{name} of {rows} × {columns:,}")

            def by_fedsim(links=links, stack=stack) -> None:
                jax.block_until_ready(aggregate(links, stack))

            def by_numpy(name=name, x=x) -> None:
                NUMPY[name](x)

            calls = min(max(1, ENOUGH // x.size), MOST_CALLS)
            ours, theirs = _measure(by_fedsim, by_numpy, calls)
            yield {"workload": workload, "how": "fedsim", **ours}
            yield {
                "workload": workload,
                "how": "NumPy, two threads",
                **theirs,
                "times_lanes": theirs["seconds"] / ours["seconds"],
            }


def _measure(
    by_fedsim: Callable[[], None], by_numpy: Callable[[], None], calls: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The records of both; a trial is the mean of some calls."""
    compiled_before = compile_seconds()
    by_fedsim()
    compiling_seconds = compile_seconds() - compiled_before

    def trial(work: Callable[[], None]) -> float:
        return timed(lambda: [work() for _ in range(calls)]) / calls

    # Both are measured in turn, so that what else the machine does hits both.
    pairs = [(trial(by_fedsim), trial(by_numpy)) for _ in range(TRIALS)]
    ours, theirs = map(spread, zip(*pairs, strict=True))
    return {**ours, "compile_seconds": compiling_seconds}, theirs
