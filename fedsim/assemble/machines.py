"""The clients' devices and the cohort, from the sections `fleet` and `cohort` of a scenario."""

import math
from typing import Any

import numpy as np

from fedsim.assemble.data_files import path_of, resolved_file, section_at
from fedsim.assemble.facts import Facts
from fedsim.assemble.hooks import make_link
from fedsim.assemble.links import factory_of
from fedsim.assemble.problems import Findings
from fedsim.errors import DataError
from fedsim.fleet import Cohort, Dropout, Fleet, Stragglers
from fedsim.scenario.named_files import COHORT, FLEET, SectionKey
from fedsim.scenario.scenario import Scenario
from fedsim.sources.faults import MAX_LISTED
from fedsim.sources.traces import participations_of


def fleet_of(scenario: Scenario) -> Fleet:
    """Return the fleet of all seeds.

    Raises:
      LinkError: for hyper-parameters that a factory refuses.
      DataError: for a file of traces that cannot be used.
    """
    section = scenario.spec.fleet
    kinds = {}  # speed, links and availability, where the section has them
    for key in FLEET:
        if section_at(scenario, key):
            kinds[key[-1]] = _made(scenario, key)

    dropout = section.dropout
    if isinstance(dropout, float):
        dropout = Dropout(during=dropout)
    else:
        dropout = Dropout(**dropout.model_dump())

    stragglers = Stragglers()
    if section.stragglers is not None:
        drops_late_work = section.stragglers.work == "drop"
        stragglers = Stragglers(section.stragglers.share, drops_late_work)

    # With over-selection, a round ends once the cohort's nominal size has reported.
    nominal_size = None
    if section.over_select > 1:
        nominal_size = getattr(scenario.spec.cohort, "size", None)

    return Fleet(
        **kinds,
        dropout=dropout,
        stragglers=stragglers,
        deadline=np.inf if section.deadline is None else section.deadline,
        partial=section.partial_work,
        report_goal=nominal_size,
    )


def _made(scenario: Scenario, key: SectionKey) -> Any:
    """What the factory of the section at a path makes, with the file that the section names."""
    try:
        return factory_of(section_at(scenario, key))(**path_of(scenario, key))
    except DataError as error:
        error.section = key
        raise


def resolved_fleet(scenario: Scenario) -> Any:
    """Return the section `fleet` with the paths and hashes of its trace files written out."""
    fleet = scenario.spec.fleet
    sections = {}
    for key in FLEET:
        name = key[-1]
        file = resolved_file(scenario, key)
        if file:
            sections[name] = getattr(fleet, name).model_copy(update=file)
    return fleet.model_copy(update=sections)


def cohort_of(scenario: Scenario) -> Cohort:
    """Return who takes part in a round; a listed cohort may be read from a file.

    Raises:
      LinkError: for hyper-parameters that the factory refuses.
      DataError: for a file that lists no cohorts.
    """
    try:
        return make_link(scenario, COHORT, scenario.spec.cohort, path_of(scenario, COHORT))
    except DataError as error:
        error.section = COHORT
        raise


def resolved_cohort(scenario: Scenario) -> Any:
    """Return the section `cohort` with the path and the hash of its file written out."""
    return scenario.spec.cohort.model_copy(update=resolved_file(scenario, COHORT))


def require_members(scenario: Scenario, cohort: Cohort, N: int) -> None:
    """Refuse a file of cohorts that lists clients that do not exist.

    Raises:
      DataError: naming file and lines.
    """
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
        lines.append(f"line {rows.lines[i]}: {text}")
    if len(beyond) > MAX_LISTED:
        lines.append(f"and {len(beyond) - MAX_LISTED:,} more problems")

    error = DataError(*lines).with_prefix(file["path"])
    error.section = COHORT
    raise error


def drawn_cohort(scenario: Scenario, cohort: Cohort, eligible: int) -> Cohort:
    """Return the cohort that is drawn, which is larger where a scenario selects more clients.

    Args:
      scenario: as read.
      cohort: the cohort whose messages count; its size stays the nominal one.
      eligible: clients that can be drawn.
    """
    section = scenario.spec.cohort
    factor = scenario.spec.fleet.over_select
    if factor == 1:
        return cohort

    tolerance = 1e-9  # 1.1 · 70 is 77.00000000000001
    size = min(math.ceil(section.size * factor - tolerance), eligible)
    enlarged = {"size": size}
    if hasattr(section, "candidates"):
        enlarged["candidates"] = max(section.candidates, size)
    drawn: Cohort = factory_of(section.model_copy(update=enlarged))()
    return drawn._replace(nominal=cohort.nominal, share=None)


def idle_fleet_keys(facts: Facts) -> Findings:
    """Keys of a fleet that would change nothing."""
    work_keys = [("client", key) for key in ("steps", "epochs")]
    facts.require_sound(("fleet",), ("cohort",), ("schedule",), *work_keys)
    spec = facts.spec
    fleet = spec.fleet
    if fleet.over_select > 1 and not isinstance(getattr(spec.cohort, "size", None), int):
        text = f"{spec.cohort.kind} has no size to end a round at"
        yield ("fleet", "over_select"), f"{text}; use the cohort uniform, or remove it"

    if not isinstance(fleet.dropout, float) and sum(fleet.dropout.model_dump().values()) > 1 + 1e-9:
        text = "before, during and after are probabilities of the same client"
        yield ("fleet", "dropout"), f"{text}, and more than 1 together; lower one"

    if fleet.partial_work and fleet.deadline is None:
        text = "nobody is late without a deadline"
        yield ("fleet", "partial_work"), f"{text}; write fleet.deadline, or remove it"

    if fleet.stragglers is not None and fleet.stragglers.work == "partial":
        name = "epochs" if spec.client.steps is None else "steps"
        if np.max(getattr(spec.client, name)) == 1:
            text = f"a straggler does 1 to E − 1 of E {name}, and client.{name} is 1"
            yield ("fleet", "stragglers"), f"{text}; write more, or work: drop"
