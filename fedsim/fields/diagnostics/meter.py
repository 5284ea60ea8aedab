"""How large the updates are, and how far they drift apart (`evaluate.diagnostics`)."""

import math

import numpy as np

from fedsim.engine.meters.meter import Columns, Meter, Since
from fedsim.engine.records import DispatchedRound
from fedsim.fields.diagnostics.diagnosis import Diagnosis


class Measures(Meter):
    """Averages the measures of the rounds since the last row."""

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Add a round; one with too few clients is not finite and says nothing."""
        values = {}
        for name, by_run in dispatched.observed._asdict().items():
            values[name] = float(np.asarray(by_run)[dispatched.index])
        if all(map(math.isfinite, values.values())):
            since.add(diagnosed=1, **values)

    def row(self, round: int, since: Since) -> Columns:
        """Return the means over the rounds that were measured."""
        rounds = since["diagnosed"]
        return {name: since[name] / rounds if rounds else None for name in Diagnosis._fields}
