"""Seconds of the rules in torch and in ByzFL, on the stack of `fedsim bench`. Run by hand:

    python -m venv peers && peers/bin/pip install numpy torch torchvision byzfl
    peers/bin/python tests/peers/rules.py [rows columns]

Prints a line of CSV per rule and peer: the median and the minimum of seven trials, and the version;
a peer that is not installed is left out. Ours: `fedsim bench`, alternately on the same machine.
"""

import importlib
import importlib.metadata
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

F, TRIALS = 10, 7  # as in `fedsim.bench.rules`


def torch_rules(x: np.ndarray) -> dict[str, Callable]:
    """As one writes them with the fastest calls there are."""
    torch = importlib.import_module("torch")
    stack = torch.from_numpy(x)
    K = len(x)

    def products_of(rows):
        centred = rows - rows.mean(0)
        return centred @ centred.T

    def scores(rows):
        products = products_of(rows)
        squares = products.diagonal()
        distances = (squares[:, None] + squares[None, :] - 2 * products).fill_diagonal_(0)
        return distances.sort(dim=1).values[:, 1 : K - F - 1].sum(1)

    def geometric_median(rows):
        products, w = products_of(rows), torch.full((K,), 1 / K)
        for _ in range(1000):
            pulled = products @ w
            d = (products.diagonal() - 2 * pulled + w @ pulled).clamp_min(1e-12).sqrt()
            new = (1 / d) / (1 / d).sum()
            if (new - w).abs().max() < 1e-7:
                break
            w = new
        return w @ rows

    return {
        "median": lambda: stack.median(0).values,
        "trimmed_mean": lambda: stack.sort(dim=0).values[F:-F].mean(0),
        "krum": lambda: stack[scores(stack).argmin()],
        "multi_krum": lambda: stack[scores(stack).argsort()[: K - F]].mean(0),
        "geometric_median": lambda: geometric_median(stack),
    }


def byzfl_rules(x: np.ndarray) -> dict[str, Callable]:
    """Its own aggregators on torch tensors."""
    torch, byzfl = importlib.import_module("torch"), importlib.import_module("byzfl")
    stack = torch.from_numpy(x)
    rules = {
        "median": byzfl.Median(),
        "trimmed_mean": byzfl.TrMean(f=F),
        "krum": byzfl.Krum(f=F),
        "multi_krum": byzfl.MultiKrum(f=F),
        "geometric_median": byzfl.GeometricMedian(),
    }
    return {name: lambda rule=rule: rule(stack) for name, rule in rules.items()}


def main(rows: int = 100, columns: int = 1_000_000) -> None:
    """Time what is installed."""
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    print("workload,how,seconds,least,version")
    for peer, rules in {"torch": torch_rules, "byzfl": byzfl_rules}.items():
        try:
            works = rules(x)
        except ImportError as error:
            print(f"{peer} is left out: {error}", file=sys.stderr)
            continue
        for name, work in works.items():
            work()
            seconds = [_seconds(work) for _ in range(TRIALS)]
            version = importlib.metadata.version(peer)
            print(
                f"{name} {rows} × {columns:_},{peer},"
                f"{statistics.median(seconds):.3f},{min(seconds):.3f},{version}",
                flush=True,
            )


def _seconds(work: Callable) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
