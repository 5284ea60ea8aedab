"""Aggregation rules on a large stack, beside NumPy in tiles of columns on two threads. Others: `tests/peers/rules.py`.

With OPENBLAS_NUM_THREADS=1, as `fedsim bench` has it: else the products of each tile divide themselves among threads
again, and Krum in NumPy takes about twice as long.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.assemble import aggregate
from fedsim.bench.workload import TRIALS, spread, timed
from fedsim.engine.clock import compile_seconds

ROWS, COLUMNS = 100, 1_000_000
F = 10  # malicious clients that Krum is told of; a tenth is trimmed from each tail
THREADS, SORTED, MULTIPLIED = 2, 4096, 4096  # of NumPy; columns of a tile, measured


def bench_rules(
    say: Callable[[str], None], rows: int = ROWS, columns: int = COLUMNS
) -> Iterator[dict[str, Any]]:
    """Seconds of every rule, and of the same by NumPy -> two records a rule."""
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    stack = jnp.asarray(x)
    links = {
        "median": {"kind": "median"},
        "trimmed_mean": {"kind": "trimmed_mean", "trim": F},
        "krum": {"kind": "krum", "f": F},
        "multi_krum": {"kind": "multi_krum", "f": F},
        "geometric_median": {"kind": "geometric_median"},
    }
    for name, link in links.items():
        say(f"{name} of {rows} × {columns:,}")
        compiling = compile_seconds()
        ours = lambda link=link: jax.block_until_ready(aggregate([link], stack))
        ours()
        compiling = compile_seconds() - compiling
        alternately = [
            (timed(ours), timed(lambda name=name: NUMPY[name](x))) for _ in range(TRIALS)
        ]
        seconds, theirs = map(spread, zip(*alternately, strict=True))
        workload = f"{name} {rows} × {columns:,}"
        yield {"workload": workload, "how": "fedsim", **seconds, "compile_seconds": compiling}
        yield {
            "workload": workload,
            "how": "NumPy, two threads",
            **theirs,
            "times_lanes": theirs["seconds"] / seconds["seconds"],
        }


def _each(work: Callable[[np.ndarray], np.ndarray], x: np.ndarray, width: int) -> list[np.ndarray]:
    """`work` of every tile of columns."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, [x[:, i : i + width] for i in range(0, x.shape[1], width)]))


def _sorted(x: np.ndarray, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """`of` the columns in ascending order, each of them a row: NumPy sorts what lies together several times as fast."""
    return np.concatenate(
        _each(lambda tile: of(np.sort(np.ascontiguousarray(tile.T), axis=1)), x, SORTED)
    )


def _gram(x: np.ndarray) -> np.ndarray:
    """Products of centred rows."""

    def products(tile: np.ndarray) -> np.ndarray:
        y = tile - tile.mean(0)
        return y @ y.T

    return np.sum(_each(products, x, MULTIPLIED), axis=0)


def _krum_scores(x: np.ndarray) -> np.ndarray:
    """The sum of the distances to the nearest K − f − 2 of each."""
    gram = _gram(x)
    squares = gram.diagonal()
    d = np.maximum(squares[:, None] + squares[None, :] - 2 * gram, 0)
    np.fill_diagonal(d, np.inf)
    return np.sort(d, axis=1)[:, : len(x) - F - 2].sum(1)


def _multi_krum(x: np.ndarray) -> np.ndarray:
    w = np.zeros(len(x), x.dtype)
    w[np.argsort(_krum_scores(x))[: len(x) - F]] = 1 / (len(x) - F)
    return w @ x


def _geometric_median(x: np.ndarray) -> np.ndarray:
    """Weiszfeld's iteration on weights, until they stand still."""
    gram, w = _gram(x), np.full(len(x), 1 / len(x), x.dtype)
    for _ in range(1000):
        d = np.sqrt(np.maximum(gram.diagonal() - 2 * gram @ w + w @ gram @ w, 1e-12))
        new = (1 / d) / (1 / d).sum()
        if np.abs(new - w).max() < 1e-7:
            break
        w = new
    return w @ x


NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "median": lambda x: _sorted(
        x, lambda rows: (rows[:, (len(x) - 1) // 2] + rows[:, len(x) // 2]) / 2
    ),
    "trimmed_mean": lambda x: _sorted(x, lambda rows: rows[:, F:-F].mean(1)),
    "krum": lambda x: x[_krum_scores(x).argmin()],
    "multi_krum": _multi_krum,
    "geometric_median": _geometric_median,
}
