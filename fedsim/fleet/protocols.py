"""What a plan knows of a graph of clients, and of sizes of the model, whoever brings them."""

from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Int

from fedsim.fleet.clock import Cost


class Network(Protocol):
    """Who hears whom, where clients have no server."""

    def table(self, r: int, active: np.ndarray, dtype: np.dtype) -> Any:
        """Return the links of a round on the device; nodes that are away have none.

        Args:
          r: the round.
          active: which nodes take part `[N]`.
          dtype: of weights.
        """
        ...


class Levels(Protocol):
    """Sizes of the model that clients train; arrays `[levels]`, the largest size first.

    Attributes:
      name: what a size is, such as `width`.
      sizes: what a scenario calls the sizes.
      left_out: bytes of the model that a client does not send.
    """

    @property
    def name(self) -> str: ...
    @property
    def sizes(self) -> tuple[float, ...]: ...
    @property
    def left_out(self) -> Int[np.ndarray, " levels"] | int: ...

    def assign(
        self, seconds: Float[np.ndarray, " N"], rng: np.random.Generator
    ) -> Int[np.ndarray, " N"]:
        """Return the level of every client from the seconds of a step of the whole model."""
        ...

    def of_clients(self, column: np.ndarray | float, level: Int[np.ndarray, " N"]) -> np.ndarray:
        """Return what holds for each level for every client `[N]`."""
        ...

    def reduced(self, cost: Cost, level: Int[np.ndarray, " N"]) -> Cost:
        """Return what a round costs the clients, of the cost of the whole model."""
        ...
