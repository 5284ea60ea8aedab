"""Speeds: how long a client takes for a local step.

A factory returns a function (clients, rng) -> seconds `[N]` that is called once for a seed; a client's own seconds do not
depend on how many clients come after it.
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
    """Every client takes the same time for a local step.

    Args:
      seconds: of a local step.
    """
    return lambda clients, rng: np.full(clients.N, seconds)


@speed
def uniform(low: Annotated[float, Ge(0)] = 0.5, high: Annotated[float, Ge(0)] = 1.5) -> Steps:
    """Seconds of a local step are drawn once for each client, uniform between two.

    Args:
      low: seconds of the fastest.
      high: seconds of the slowest.
    """
    if high < low:
        raise ValueError(f"high {high:g} is below low {low:g}")
    return lambda clients, rng: low + (high - low) * rng.random(clients.N)


@speed
def lognormal(median: Positive = 1.0, sigma: Annotated[float, Ge(0), Le(10)] = 0.5) -> Steps:
    """Seconds of a local step are drawn once for each client, log-normal.

    Args:
      median: seconds.
      sigma: standard deviation of the logarithm; with 0.5, one client in six takes more than 1.65 medians.
    """
    return lambda clients, rng: median * np.exp(sigma * rng.standard_normal(clients.N))


@speed
def pareto(least: Positive = 1.0, shape: Annotated[float, Ge(0.1)] = 2.0) -> Steps:
    """Seconds of a local step are drawn once for each client, with a heavy tail: P(s > t) = (least / t)^shape.

    Args:
      least: seconds of the fastest.
      shape: of the tail; the mean is infinite where it is 1 or less.
    """
    return lambda clients, rng: least * (1.0 - rng.random(clients.N)) ** (-1.0 / shape)


@speed
def classes(
    seconds: Annotated[list[Positive], MinLen(1)],
    shares: Annotated[list[Positive], MinLen(1)] | None = None,
) -> Steps:
    """Every client is a device of one of a few classes, such as new and old phones.

    Args:
      seconds: of a local step, by class.
      shares: of the clients, by class, in any unit; left out: equal ones.
    """
    weights = np.ones(len(seconds)) if shares is None else np.array(shares)
    if len(weights) != len(seconds):
        raise ValueError(
            f"{len(seconds)} seconds and {len(weights)} shares; give a share for each class"
        )
    edges = np.cumsum(weights)[:-1] / weights.sum()
    return lambda clients, rng: np.array(seconds)[
        np.searchsorted(edges, rng.random(clients.N), "right")
    ]


@speed
def trace(path: Name, sha256: str | None = None) -> Steps:
    """Seconds of a local step as they were measured: a CSV with the columns `client, seconds_per_step`.

    Client k is the device with the k-th smallest id (numbers as numbers); clients beyond the last device begin again with
    the first. Other columns do not matter, so that one file may hold links too. Nothing is drawn.

    Args:
      path: of the file, plain or gzipped, from the scenario's folder, the working directory or a `--data-root`; elsewhere
        none is read.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for a file that is not such a trace, naming file and lines.
    """
    seconds = devices_of(path, sha256, {"seconds_per_step": 0.0})[:, 0]
    return lambda clients, rng: np.resize(seconds, clients.N)
