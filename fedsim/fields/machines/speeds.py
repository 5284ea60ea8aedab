"""Speeds: how long a local step takes a client.

A factory returns a function (clients, rng) -> seconds `[N]`, which is called once per seed. A
client's seconds do not depend on how many clients come after it.
"""

from collections.abc import Callable
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le, MinLen
from jaxtyping import Float

from fedsim.compose import speed
from fedsim.fleet.clients import Clients
from fedsim.sources.files import Name
from fedsim.sources.traces import devices_of

Positive = Annotated[float, Gt(0)]
Steps = Callable[[Clients, np.random.Generator], Float[np.ndarray, " N"]]


@speed
def constant(seconds: Annotated[float, Ge(0)] = 1.0) -> Steps:
    """A local step takes every client the same time.

    Args:
      seconds: duration of a local step.
    """
    return lambda clients, rng: np.full(clients.N, seconds)


@speed
def uniform(low: Annotated[float, Ge(0)] = 0.5, high: Annotated[float, Ge(0)] = 1.5) -> Steps:
    """Seconds of a local step are drawn once for each client, uniformly between two bounds.

    Args:
      low: lower bound, seconds of the fastest client.
      high: upper bound, seconds of the slowest client.
    """
    if high < low:
        raise ValueError(f"high {high:g} is below low {low:g}")
    return lambda clients, rng: low + (high - low) * rng.random(clients.N)


@speed
def lognormal(median: Positive = 1.0, sigma: Annotated[float, Ge(0), Le(10)] = 0.5) -> Steps:
    """Seconds of a local step are drawn once for each client, log-normal.

    Args:
      median: median of the seconds.
      sigma: standard deviation of the logarithm; with 0.5, one client in six takes more than 1.65
        medians.
    """
    return lambda clients, rng: median * np.exp(sigma * rng.standard_normal(clients.N))


@speed
def pareto(least: Positive = 1.0, shape: Annotated[float, Ge(0.1)] = 2.0) -> Steps:
    """Seconds of a local step are drawn once for each client, with a heavy tail.

    P(s > t) = (least / t)^shape.

    Args:
      least: seconds of the fastest client.
      shape: exponent of the tail; the mean is infinite if it is 1 or less.
    """
    return lambda clients, rng: least * (1.0 - rng.random(clients.N)) ** (-1.0 / shape)


@speed
def classes(
    seconds: Annotated[list[Positive], MinLen(1)],
    shares: Annotated[list[Positive], MinLen(1)] | None = None,
) -> Steps:
    """Every client is a device of one of a few classes, such as new and old phones.

    Args:
      seconds: seconds of a local step, by class.
      shares: share of the clients in each class, in any unit; left out: equal shares.
    """
    weights = np.ones(len(seconds)) if shares is None else np.array(shares)
    if len(weights) != len(seconds):
        raise ValueError(
            f"{len(seconds)} seconds and {len(weights)} shares; give a share for each class"
        )
    edges = np.cumsum(weights)[:-1] / weights.sum()

    def draw(clients: Clients, rng: np.random.Generator) -> Float[np.ndarray, " N"]:
        device_class = np.searchsorted(edges, rng.random(clients.N), "right")
        return np.array(seconds)[device_class]

    return draw


@speed
def trace(path: Name, sha256: str | None = None) -> Steps:
    """Measured seconds of a local step: a CSV with the columns `client, seconds_per_step`.

    Client k is the device with the k-th smallest id (numbers as numbers); after the last device,
    clients start over with the first. Other columns are ignored, so that one file may hold links as
    well. Nothing is drawn.

    Args:
      path: the file, plain or gzipped, in the scenario's folder, the working directory or a
        `--data-root`; files elsewhere are not read.
      sha256: hash of the file; any other file is refused (filled in by the resolved scenario).

    Raises:
      DataError: if the file is not such a trace; names the file and the lines.
    """
    seconds = devices_of(path, sha256, {"seconds_per_step": 0.0})[:, 0]
    return lambda clients, rng: np.resize(seconds, clients.N)
