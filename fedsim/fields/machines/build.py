"""The machines of a scenario, from its section `fleet`."""

import math
from typing import Any

import numpy as np

from fedsim.assemble.data_files import path_of, resolved_file, section_at
from fedsim.assemble.links import factory_of
from fedsim.errors import DataError
from fedsim.fields.machines.keys import FILES, KINDS
from fedsim.fields.machines.machines import Dropout, Fleet
from fedsim.fields.machines.stragglers import Stragglers
from fedsim.fleet import Cohort
from fedsim.scenario.named_files import SectionKey
from fedsim.scenario.scenario import Scenario
from fedsim.sources.traces import devices_of


def fleet_of(scenario: Scenario) -> Fleet:
    """Return the fleet of all seeds."""
    section = scenario.spec.fleet
    kinds = {}  # speed, links and availability, where the section has them
    for name in KINDS:
        if getattr(section, name):
            kinds[name] = _made(scenario, ("fleet", name))

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
        energy=None if section.energy is None else _energy(scenario, ("fleet", "energy")),
    )


def _energy(scenario: Scenario, key: SectionKey) -> tuple[np.ndarray, np.ndarray]:
    """Joules of a local step and of a byte, of all clients alike, or by client or device."""
    section = section_at(scenario, key)
    file = path_of(scenario, key)
    if not file:
        return np.array(section.per_step), np.array(section.per_byte)
    least = {"joules_per_step": 0.0, "joules_per_byte": 0.0}
    try:
        per_step, per_byte = devices_of(file["path"], section.sha256, least).T
    except DataError as error:
        error.section = key
        raise
    return per_step, per_byte


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
    for key in FILES:
        name = key[-1]
        file = resolved_file(scenario, key)
        if file:
            sections[name] = getattr(fleet, name).model_copy(update=file)
    return fleet.model_copy(update=sections)


def drawn_cohort(scenario: Scenario, cohort: Cohort, eligible: int) -> Cohort:
    """Return the cohort that is drawn, which is larger where a scenario selects more clients.

    Args:
      cohort: the cohort whose messages count; its size stays the nominal one.
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
