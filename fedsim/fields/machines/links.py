"""Links: how fast messages travel to a client and back.

A factory returns a function (clients, rng) -> `Rates`, which is called once per seed. A client's
rates do not depend on how many clients come after it.
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

SLOWEST = 1e-9  # bytes per second
Positive = Annotated[float, Ge(1e-9)]


class Rates(NamedTuple):
    """The clients' links; one number for all clients, or `[N]`.

    Attributes:
      down: bytes per second to the client.
      up: bytes per second from the client.
      latency: seconds before a message travels, in each direction.
    """

    down: Float[np.ndarray, " N"] | float = np.inf
    up: Float[np.ndarray, " N"] | float = np.inf
    latency: Float[np.ndarray, " N"] | float = 0.0


Draw = Callable[[Clients, np.random.Generator], Rates]


@link
def constant(
    up: Positive | None = None, down: Positive | None = None, latency: Annotated[float, Ge(0)] = 0.0
) -> Draw:
    """Every client has the same link.

    Args:
      up: bytes per second from the client; left out: unlimited.
      down: bytes per second to the client; left out: unlimited.
      latency: seconds before a message travels, in each direction.
    """
    rates = Rates(
        down=np.inf if down is None else down, up=np.inf if up is None else up, latency=latency
    )
    return lambda clients, rng: rates


@link
def lognormal(
    up: Positive = 1e6,
    down: Positive = 1e7,
    sigma: Annotated[float, Ge(0), Le(10)] = 0.5,
    latency: Annotated[float, Ge(0)] = 0.0,
) -> Draw:
    """Rates are drawn once for each client, log-normal; both directions have the same factor.

    Args:
      up: median of bytes per second from the client.
      down: median of bytes per second to the client.
      sigma: standard deviation of the logarithm.
      latency: seconds before a message travels, in each direction.
    """

    def draw(clients: Clients, rng: np.random.Generator) -> Rates:
        factor = np.exp(sigma * rng.standard_normal(clients.N))
        return Rates(down * factor, up * factor, latency)

    return draw


@link
def trace(path: Name, sha256: str | None = None) -> Draw:
    """Measured links, from a CSV with the columns `client, up, down, latency`.

    Rates are in bytes per second, latencies in seconds.

    Client k is the device with the k-th smallest id (numbers as numbers); after the last device,
    clients start over with the first. Other columns are ignored, so that one file may hold speeds
    as well. Nothing is drawn.

    Args:
      path: the file, plain or gzipped, in the scenario's folder, the working directory or a
        `--data-root`; files elsewhere are not read.
      sha256: hash of the file; any other file is refused (filled in by the resolved scenario).

    Raises:
      DataError: if the file is not such a trace; names the file and the lines.
    """
    least = {"up": SLOWEST, "down": SLOWEST, "latency": 0.0}
    up, down, latency = devices_of(path, sha256, least).T

    def draw(clients: Clients, rng: np.random.Generator) -> Rates:
        return Rates(
            down=np.resize(down, clients.N),
            up=np.resize(up, clients.N),
            latency=np.resize(latency, clients.N),
        )

    return draw
