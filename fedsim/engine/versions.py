"""Models of the server that clients in flight were given: what an asynchronous round trains from."""

from collections.abc import Iterable

import jax
import numpy as np

from fedsim.disk.checkpoint import fitted, named
from fedsim.types import Shared


class Versions:
    """Shared variables by version, the number of steps that the server had taken; on the device, none of them a copy."""

    def __init__(self, version: int, shared: Shared):
        self.models: dict[int, Shared] = {version: shared}

    def keep(self, version: int, shared: Shared) -> None:
        """A version that clients may be given from now on."""
        self.models[version] = shared

    def release(self, version: int, needed: Iterable[int]) -> None:
        """Forget what was older than a version, but for those that clients still train from."""
        kept = {version, *needed}
        self.models = {v: shared for v, shared in self.models.items() if v > version or v in kept}

    def arrays(self, version: int, needed: Iterable[int]) -> dict[str, np.ndarray]:
        """What a commit holds of those that are needed; the newest version is the server's own."""
        parts = [named(f"version{v}", self.models[v]) for v in needed if v != version]
        return {name: leaf for part in parts for name, leaf in part.items()}

    def restore(
        self, arrays: dict[str, np.ndarray], version: int, shared: Shared, needed: Iterable[int]
    ) -> None:
        """Go on from what `arrays` gave."""
        older = {int(v): fitted(f"version{v}", arrays, shared) for v in needed if v != version}
        self.models = {**jax.device_put(older), version: shared}
