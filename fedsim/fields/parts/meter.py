"""Which size of the model every client trains."""

import numpy as np

from fedsim.engine.meters import Meter
from fedsim.fleet import Plan


class Sizes(Meter):
    """Tells the size of every client."""

    def __init__(self, plan: Plan):
        self.plan = plan

    def of_clients(self, listed: np.ndarray) -> dict[str, list]:
        """Return `width` or `rank`."""
        levels = self.plan.levels
        assert levels is not None and self.plan.level is not None
        sizes = levels.of_clients(np.array(levels.sizes), self.plan.level)
        return {levels.name: sizes[listed].tolist()}
