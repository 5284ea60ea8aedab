"""Links: how fast messages travel to a client and back.

A factory returns a function (clients, rng) -> `Rates` that is called once for a seed; a client's own rates do not depend on
how many clients come after it.
"""

from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Le
from jaxtyping import Float

from fedsim.compose import link
from fedsim.fleet.clients import Clients
from fedsim.sources.files import Name
from fedsim.sources.traces import devices_of

SLOWEST = 1e-9  # bytes a second
Positive = Annotated[float, Ge(1e-9)]


class Rates(NamedTuple):
    """Links; a number holds for all clients, else one each `[N]`."""

    down: Float[np.ndarray, " N"] | float = np.inf  # bytes a second to the client
    up: Float[np.ndarray, " N"] | float = np.inf  # bytes a second from it
    latency: Float[np.ndarray, " N"] | float = (
        0.0  # seconds before a message travels, in each direction
    )


Draw = Callable[[Clients, np.random.Generator], Rates]


@link
def constant(
    up: Positive | None = None, down: Positive | None = None, latency: Annotated[float, Ge(0)] = 0.0
) -> Draw:
    """Every client has the same link.

    Args:
      up: bytes a second from the client; left out: infinitely many.
      down: bytes a second to it, likewise.
      latency: seconds before a message travels, in each direction.
    """
    return lambda clients, rng: Rates(
        np.inf if down is None else down, np.inf if up is None else up, latency
    )


@link
def lognormal(
    up: Positive = 1e6,
    down: Positive = 1e7,
    sigma: Annotated[float, Ge(0), Le(10)] = 0.5,
    latency: Annotated[float, Ge(0)] = 0.0,
) -> Draw:
    """Rates are drawn once for each client, log-normal; both directions have the same factor.

    Args:
      up: median of bytes a second from the client.
      down: median of bytes a second to it.
      sigma: standard deviation of the logarithm.
      latency: seconds before a message travels, in each direction.
    """

    def draw(clients: Clients, rng: np.random.Generator) -> Rates:
        factor = np.exp(sigma * rng.standard_normal(clients.N))
        return Rates(down * factor, up * factor, latency)

    return draw


@link
def trace(path: Name, sha256: str | None = None) -> Draw:
    """Links as they were measured: a CSV with the columns `client, up, down, latency`, bytes a second and seconds.

    Client k is the device with the k-th smallest id (numbers as numbers); clients beyond the last device begin again with
    the first. Other columns do not matter, so that one file may hold speeds too. Nothing is drawn.

    Args:
      path: of the file, plain or gzipped, from the scenario's folder, the working directory or a `--data-root`; elsewhere
        none is read.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for a file that is not such a trace, naming file and lines.
    """
    up, down, latency = devices_of(path, sha256, {"up": SLOWEST, "down": SLOWEST, "latency": 0.0}).T
    return lambda clients, rng: Rates(
        *(np.resize(column, clients.N) for column in (down, up, latency))
    )
