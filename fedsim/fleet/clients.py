"""What a fleet may know about clients besides their machines."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Int


class Clients(NamedTuple):
    """All clients of a federation."""

    samples: Int[np.ndarray, " N"]  # n_k, training samples
    count_labels: Callable[
        [], Int[np.ndarray, "N C"]
    ]  # of them, by class; C = 0 where there are no classes

    @property
    def labels(self) -> Int[np.ndarray, "N C"]:
        """Training samples by class."""
        return self.count_labels()

    @property
    def N(self) -> int:
        """Clients."""
        return len(self.samples)
