"""Models that clients in flight were given, from which an asynchronous round trains."""

from collections.abc import Iterable

import jax
import numpy as np

from fedsim.disk.checkpoint import leaves_by_name, restore_tree
from fedsim.types import Shared


class Versions:
    """Shared variables by version, the number of steps that the server had taken.

    They are on the device; the newest version is the server's own arrays, not a copy.
    """

    def __init__(self, version: int, shared: Shared):
        self.models: dict[int, Shared] = {version: shared}

    def add(self, version: int, shared: Shared) -> None:
        """Add a version that clients may be given from now on."""
        self.models[version] = shared

    def release(self, version: int, needed: Iterable[int]) -> None:
        """Forget versions older than `version`, except those that clients still train from."""
        retained = {version, *needed}
        self.models = {
            v: shared for v, shared in self.models.items() if v > version or v in retained
        }

    def arrays(self, version: int, needed: Iterable[int]) -> dict[str, np.ndarray]:
        """Return what a checkpoint stores: the needed versions but the newest, the server's own."""
        arrays = {}
        for v in needed:
            if v != version:
                arrays |= leaves_by_name(f"version{v}", self.models[v])
        return arrays

    def restore(
        self, arrays: dict[str, np.ndarray], version: int, shared: Shared, needed: Iterable[int]
    ) -> None:
        """Resume from what `arrays` returned.

        Args:
          arrays: the checkpoint's arrays.
          version: the newest version.
          shared: its variables.
          needed: versions that clients still train from.
        """
        older = {
            int(v): restore_tree(f"version{v}", arrays, shared) for v in needed if v != version
        }
        self.models = {**jax.device_put(older), version: shared}
