"""What a fleet may know about clients besides their machines."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Int


class Clients(NamedTuple):
    """All clients of a federation.

    Attributes:
      samples: training samples n_k.
      count_labels: counts the training samples by class; C = 0 where there are no classes.
    """

    samples: Int[np.ndarray, " N"]
    count_labels: Callable[[], Int[np.ndarray, "N C"]]

    @property
    def labels(self) -> Int[np.ndarray, "N C"]:
        """Training samples by class."""
        return self.count_labels()

    @property
    def N(self) -> int:
        """Number of clients."""
        return len(self.samples)
