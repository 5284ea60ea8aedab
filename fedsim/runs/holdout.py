"""`data.holdout: each`: a comparison in which every client is held out in turn."""

from collections.abc import Sequence

import numpy as np

from fedsim.assemble.federation import partitioned_samples
from fedsim.runs.given import NOTHING_GIVEN, Given
from fedsim.runs.refusals import CompareOverrides
from fedsim.scenario import Scenario, read
from fedsim.study.grid import axes_of

AXIS = "data.test"
TAKEN = f"each varies {AXIS}, and so does the comparison; remove one of them"


def with_holdout(
    scenario: Scenario, overrides: CompareOverrides, given: Given = NOTHING_GIVEN
) -> tuple[Scenario, CompareOverrides]:
    """Return a comparison whose variations hold one client out each, where it asks for that."""
    if scenario.spec.data.holdout is None:
        return scenario, overrides
    varied = axes_of(overrides.vary or scenario.spec.compare.vary)
    if AXIS in varied:
        raise scenario.error(("data", "holdout"), TAKEN)
    edited = read(scenario, ("data.holdout=null",))
    tests = [{"clients": [name]} for name in _clients(edited, given)]
    return edited, overrides._replace(vary={**varied, AXIS: tests})


def _clients(scenario: Scenario, given: Given) -> Sequence[str | int]:
    """The names of the clients that have samples, or their numbers."""
    partitioned = partitioned_samples(scenario, given.data, np.dtype(scenario.spec.numerics.dtype))
    parts = partitioned.parts[scenario.spec.seeds[0]]
    present = np.flatnonzero(np.diff(parts.offsets)).tolist()
    return [client if parts.names is None else parts.names[client] for client in present]
