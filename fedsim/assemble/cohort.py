"""The cohort, from the section `cohort` of a scenario."""

import numpy as np

from fedsim.assemble.data_files import path_of
from fedsim.assemble.hooks import make_link
from fedsim.errors import DataError
from fedsim.fleet import Cohort
from fedsim.scenario.named_files import COHORT
from fedsim.scenario.scenario import Scenario
from fedsim.sources.faults import MAX_LISTED
from fedsim.sources.traces import participations_of


def cohort_of(scenario: Scenario) -> Cohort:
    """Return who takes part in a round; a listed cohort may be read from a file.

    Raises:
      LinkError: for hyper-parameters that the factory refuses.
    """
    try:
        return make_link(scenario, COHORT, scenario.spec.cohort, path_of(scenario, COHORT))
    except DataError as error:
        error.section = COHORT
        raise


def require_members(scenario: Scenario, cohort: Cohort, N: int) -> None:
    """Refuse a file of cohorts that lists clients that do not exist."""
    section = scenario.spec.cohort
    if section.kind != "listed" or not any(client >= N for client in cohort.names):
        return
    file = path_of(scenario, COHORT)
    if not file:
        return

    rows = participations_of(file["path"], section.sha256)
    beyond = np.flatnonzero(rows.client >= N)
    lines = []
    for i in beyond[:MAX_LISTED]:
        text = f"there is no client {rows.client[i]} (clients are 0 to {N - 1})"
        lines.append(f"row {rows.rows[i]}: {text}")
    if len(beyond) > MAX_LISTED:
        lines.append(f"and {len(beyond) - MAX_LISTED:,} more problems")

    error = DataError(*lines).with_prefix(file["path"])
    error.section = COHORT
    raise error
