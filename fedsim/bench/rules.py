"""Aggregation rules on a large stack, compared with NumPy in tiles of columns on two threads.

`tests/peers/rules.py` compares them with other libraries.

`fedsim bench` sets OPENBLAS_NUM_THREADS=1: otherwise the products of each tile are divided among
threads once more, and Krum in NumPy takes about twice as long.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.assemble import aggregate
from fedsim.bench.timing import TRIALS, Announce, spread, timed
from fedsim.engine.clock import compile_seconds

ROWS = 100
COLUMNS = 1_000_000
F = 10  # malicious clients that Krum assumes; a tenth is trimmed from each tail

# NumPy's threads, and the columns of its tiles, as measured to be fastest.
NUMPY_THREADS = 2
SORTED_COLUMNS = 4096
MULTIPLIED_COLUMNS = 4096

LINKS = {
    "median": {"kind": "median"},
    "trimmed_mean": {"kind": "trimmed_mean", "trim": F},
    "krum": {"kind": "krum", "f": F},
    "multi_krum": {"kind": "multi_krum", "f": F},
    "geometric_median": {"kind": "geometric_median"},
}


def bench_rules(
    announce: Announce, rows: int = ROWS, columns: int = COLUMNS
) -> Iterator[dict[str, Any]]:
    """Measure every rule, and the same by NumPy.

    Args:
      announce: called with what is measured next.
      rows: rows of the stack.
      columns: its columns.

    Yields:
      two records a rule.
    """
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    stack = jnp.asarray(x)
    for name, link in LINKS.items():
        workload = f"{name} {rows} × {columns:,}"
        announce(f"{name} of {rows} × {columns:,}")

        def by_fedsim(link=link) -> None:
            jax.block_until_ready(aggregate([link], stack))

        def by_numpy(name=name) -> None:
            NUMPY[name](x)

        compiled_before = compile_seconds()
        by_fedsim()
        compiling_seconds = compile_seconds() - compiled_before

        # Both are measured in turn, so that what else the machine does hits both.
        pairs = [(timed(by_fedsim), timed(by_numpy)) for _ in range(TRIALS)]
        ours, theirs = map(spread, zip(*pairs, strict=True))
        yield {"workload": workload, "how": "fedsim", **ours, "compile_seconds": compiling_seconds}
        yield {
            "workload": workload,
            "how": "NumPy, two threads",
            **theirs,
            "times_lanes": theirs["seconds"] / ours["seconds"],
        }


def _for_tiles(
    work: Callable[[np.ndarray], np.ndarray], x: np.ndarray, width: int
) -> list[np.ndarray]:
    """`work` on every tile of columns, on several threads."""
    tiles = [x[:, first : first + width] for first in range(0, x.shape[1], width)]
    with ThreadPoolExecutor(NUMPY_THREADS) as pool:
        return list(pool.map(work, tiles))


def _of_sorted_columns(x: np.ndarray, reduce: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """`reduce` the columns `[K, D]` in ascending order, passed as rows `[tile, K]`.

    NumPy sorts values that are adjacent in memory several times as fast.
    """

    def reduce_tile(tile: np.ndarray) -> np.ndarray:
        rows = np.ascontiguousarray(tile.T)
        return reduce(np.sort(rows, axis=1))

    return np.concatenate(_for_tiles(reduce_tile, x, SORTED_COLUMNS))


def _median(x: np.ndarray) -> np.ndarray:
    low = (len(x) - 1) // 2
    high = len(x) // 2
    return _of_sorted_columns(x, lambda rows: (rows[:, low] + rows[:, high]) / 2)


def _trimmed_mean(x: np.ndarray) -> np.ndarray:
    return _of_sorted_columns(x, lambda rows: rows[:, F:-F].mean(1))


def _gram(x: np.ndarray) -> np.ndarray:
    """Products of centred rows."""

    def products(tile: np.ndarray) -> np.ndarray:
        y = tile - tile.mean(0)
        return y @ y.T

    return np.sum(_for_tiles(products, x, MULTIPLIED_COLUMNS), axis=0)


def _krum_scores(x: np.ndarray) -> np.ndarray:
    """The sum of every row's squared distances to its nearest K − f − 2 rows."""
    gram = _gram(x)
    squares = gram.diagonal()
    distances = np.maximum(squares[:, None] + squares[None, :] - 2 * gram, 0)
    np.fill_diagonal(distances, np.inf)
    return np.sort(distances, axis=1)[:, : len(x) - F - 2].sum(1)


def _krum(x: np.ndarray) -> np.ndarray:
    return x[_krum_scores(x).argmin()]


def _multi_krum(x: np.ndarray) -> np.ndarray:
    w = np.zeros(len(x), x.dtype)
    w[np.argsort(_krum_scores(x))[: len(x) - F]] = 1 / (len(x) - F)
    return w @ x


def _geometric_median(x: np.ndarray) -> np.ndarray:
    """Weiszfeld's iteration on weights, until it converges."""
    gram = _gram(x)
    w = np.full(len(x), 1 / len(x), x.dtype)
    for _ in range(1000):
        distances = np.sqrt(np.maximum(gram.diagonal() - 2 * gram @ w + w @ gram @ w, 1e-12))
        new_w = (1 / distances) / (1 / distances).sum()
        if np.abs(new_w - w).max() < 1e-7:
            break
        w = new_w
    return w @ x


NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "median": _median,
    "trimmed_mean": _trimmed_mean,
    "krum": _krum,
    "multi_krum": _multi_krum,
    "geometric_median": _geometric_median,
}
