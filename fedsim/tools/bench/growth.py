"""How seconds and memory of a whole run grow with each of its sizes.

Every size is measured in a process of its own: memory that another run has used, and programs that
it has compiled, would count otherwise.
"""

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import fedsim
from fedsim.engine.clock import compile_seconds
from fedsim.machine import memory_peak
from fedsim.tools.bench.timing import Announce

FEATURES = 20
CLASSES = 10


def _scenario(
    rounds: int = 5,
    seeds: int = 1,
    samples: int = 10_000,
    clients: int = 1_000,
    cohort: int = 100,
    hidden: Sequence[int] = (),
    steps: int | None = None,
) -> dict[str, Any]:
    """A scenario of federated averaging that is scored once, at its end.

    Args:
      rounds: its rounds.
      seeds: how many seeds run side by side.
      samples: a tenth of them is for testing.
      clients: how many share the others.
      cohort: how many clients train in a round.
      hidden: widths of hidden layers.
      steps: local steps; None: one pass over the client's samples.
    """
    length = {"epochs": 1} if steps is None else {"steps": steps}
    return {
        "name": "growth",
        "rounds": rounds,
        "seeds": seeds,
        "data": {
            "kind": "gaussian_blobs",
            "shape": [FEATURES],
            "samples": samples,
            "test": 0.1,
            "clients": clients,
        },
        "model": {"kind": "mlp", "hidden": list(hidden)} if hidden else "logistic",
        "cohort": {"kind": "uniform", "size": cohort},
        "client": {"lr": 0.01, "batch": 10, **length},
        "evaluate": {"every": rounds},
    }


def _of_parameters(size: int) -> dict[str, Any]:
    """Two hidden layers of equal width with about so many parameters; two clients take a step."""
    ends = FEATURES + CLASSES
    width = round((math.sqrt(ends**2 + 4 * size) - ends) / 2)
    return _scenario(clients=10, cohort=2, hidden=(width, width), steps=1)


def _of_messages(size: int) -> dict[str, Any]:
    """FedAsync with so many messages of five local steps."""
    return {**_scenario(rounds=size, clients=100, steps=5), "schedule": "fedasync"}


# What grows -> the scenario of a size.
AXES: dict[str, Callable[[int], dict[str, Any]]] = {
    "rounds": lambda size: _scenario(rounds=size),
    "clients": lambda size: _scenario(clients=size, samples=4 * size),
    "cohort": lambda size: _scenario(clients=20_000, samples=80_000, cohort=size),
    "samples": lambda size: _scenario(samples=size, clients=100),
    "parameters": _of_parameters,
    "seeds": lambda size: _scenario(seeds=size, rounds=50),
    "messages": _of_messages,
}
SIZES: dict[str, Sequence[int]] = {
    "rounds": (10, 100, 1_000, 10_000),
    "clients": (1_000, 10_000, 100_000, 1_000_000),
    "cohort": (10, 100, 1_000, 10_000),
    "samples": (10_000, 100_000, 1_000_000, 4_000_000),
    "parameters": (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
    "seeds": (1, 4, 16, 64),
    "messages": (100, 1_000, 10_000),
}


def bench_growth(
    announce: Announce, sizes: Mapping[str, Sequence[int]] = SIZES
) -> Iterator[dict[str, Any]]:
    """Measure a run at every size of every axis.

    Args:
      announce: called with what is measured next.
      sizes: by axis, in increasing order.

    Yields:
      a record a size: the seconds of the run without compiling, the most bytes that its process
      held, and from the second size on the exponents: seconds ∝ size^exponent between a size and
      the one before it, and the same for the bytes that the run added to those of the imports.
    """
    for axis, all_sizes in sizes.items():
        before: dict[str, Any] | None = None
        for size in all_sizes:
            announce(f"{axis}: {size:,}")
            costs = _in_a_process(axis, size)
            record = {
                "workload": f"{axis} {size:,}",
                "how": "whole run",
                "seconds": costs["seconds"],
                "compile_seconds": costs["compile_seconds"],
                "peak_bytes": costs["peak_bytes"],
            }
            if before is not None:
                ratio = size / before["size"]
                record["exponent"] = _exponent(costs, before, "seconds", ratio)
                record["memory_exponent"] = _exponent(costs, before, "added_bytes", ratio)
            yield record
            before = {**costs, "size": size}


def _exponent(
    costs: Mapping[str, Any], before: Mapping[str, Any], name: str, ratio: float
) -> float:
    """The power of the size that a measure grew with; `ratio` is that of the two sizes."""
    return math.log(costs[name] / before[name]) / math.log(ratio)


def _in_a_process(axis: str, size: int) -> dict[str, Any]:
    """Measure a size in a new process."""
    words = [sys.executable, "-m", "fedsim.tools.bench.growth", axis, str(size)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def measure(axis: str, size: int) -> dict[str, Any]:
    """Run the scenario of a size in this process."""
    imported_bytes = memory_peak()
    begin = time.perf_counter()
    fedsim.run(AXES[axis](size), progress=False)
    seconds = time.perf_counter() - begin
    compiling_seconds = compile_seconds()
    return {
        "seconds": seconds - compiling_seconds,
        "compile_seconds": compiling_seconds,
        "peak_bytes": memory_peak(),
        "added_bytes": max(1, memory_peak() - imported_bytes),
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
