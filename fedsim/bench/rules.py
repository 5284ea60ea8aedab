"""Aggregation rules on a large stack, beside NumPy."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.bench.workload import TRIALS, spread, timed
from fedsim.build import aggregate
from fedsim.engine.clock import compile_seconds

ROWS, COLUMNS = 100, 1_000_000
F = 10  # malicious clients that Krum is told of; a tenth is trimmed from each tail


def bench_rules(say: Callable[[str], None], rows: int = ROWS, columns: int = COLUMNS) -> Iterator[dict[str, Any]]:
    """Seconds of every rule, and of the same by NumPy -> two records a rule."""
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    stack = jnp.asarray(x)
    links = {
        "median": {"kind": "median"},
        "trimmed_mean": {"kind": "trimmed_mean", "trim": F},
        "krum": {"kind": "krum", "f": F},
        "geometric_median": {"kind": "geometric_median"},
    }
    for name, link in links.items():
        say(f"{name} of {rows} × {columns:,}")
        compiling = compile_seconds()
        ours = lambda link=link: jax.block_until_ready(aggregate([link], stack))
        ours()
        compiling = compile_seconds() - compiling
        seconds, theirs = (
            spread([timed(work) for _ in range(TRIALS)]) for work in (ours, lambda name=name: NUMPY[name](x))
        )
        workload = f"{name} {rows} × {columns:,}"
        yield {"workload": workload, "how": "fedsim", **seconds, "compile_seconds": compiling}
        yield {"workload": workload, "how": "NumPy", **theirs, "times_lanes": theirs["seconds"] / seconds["seconds"]}


def _median(x: np.ndarray) -> np.ndarray:
    x = np.sort(x, axis=0)
    return (x[(len(x) - 1) // 2] + x[len(x) // 2]) / 2


def _krum(x: np.ndarray) -> np.ndarray:
    """Distances from centred rows, the sum of the nearest K − f − 2 of each."""
    y = x - x.mean(0)
    squares = np.einsum("ij,ij->i", y, y)
    d = np.maximum(squares[:, None] + squares[None, :] - 2 * (y @ y.T), 0)
    np.fill_diagonal(d, np.inf)
    return x[np.sort(d, axis=1)[:, : len(x) - F - 2].sum(1).argmin()]


def _geometric_median(x: np.ndarray) -> np.ndarray:
    """Weiszfeld's iteration on weights, until they stand still."""
    y = x - x.mean(0)
    gram, w = y @ y.T, np.full(len(x), 1 / len(x), np.float32)
    for _ in range(1000):
        d = np.sqrt(np.maximum(gram.diagonal() - 2 * gram @ w + w @ gram @ w, 1e-12))
        new = (1 / d) / (1 / d).sum()
        if np.abs(new - w).max() < 1e-7:
            break
        w = new
    return w @ x


NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "median": _median,
    "trimmed_mean": lambda x: np.sort(x, axis=0)[F:-F].mean(0),
    "krum": _krum,
    "geometric_median": _geometric_median,
}
