"""Clients as machines, from the section `fleet` of a scenario."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedsim.assemble.data_files import path_of, resolved_file, section_at
from fedsim.assemble.hooks import make_link
from fedsim.assemble.links import factory_of
from fedsim.errors import DataError
from fedsim.fleet import Cohort, Dropout, Fleet, Stragglers
from fedsim.scenario.named_files import COHORT, FLEET, SectionKey
from fedsim.scenario.reader import Path
from fedsim.scenario.scenario import Scenario
from fedsim.sources.faults import LISTED
from fedsim.sources.traces import participations_of


def fleet_of(scenario: Scenario) -> Fleet:
    """The machines of all seeds; factories that refuse their arguments raise a LinkError."""
    section = scenario.spec.fleet
    parts = [(place, part) for place in FLEET if (part := section_at(scenario, place))]
    made = {place[-1]: _part(scenario, place, part) for place, part in parts}
    shares = section.dropout
    dropout = (
        Dropout(during=shares) if isinstance(shares, float) else Dropout(**shares.model_dump())
    )
    slow = section.stragglers
    return Fleet(
        **made,
        dropout=dropout,
        stragglers=Stragglers() if slow is None else Stragglers(slow.share, slow.work == "drop"),
        deadline=np.inf if section.deadline is None else section.deadline,
        partial=section.partial_work,
        keep=getattr(scenario.spec.cohort, "size", None) if section.over_select > 1 else None,
    )


def _part(scenario: Scenario, place: SectionKey, section: Any) -> Any:
    """Speeds, links or availability, from the section at a place."""
    try:
        return factory_of(section)(**path_of(scenario, place))
    except DataError as error:
        error.section = place
        raise


def resolved_fleet(scenario: Scenario) -> Any:
    """The section `fleet` as it was understood: where its traces lie, and their hashes."""
    files = {place[-1]: resolved_file(scenario, place) for place in FLEET}
    fleet = scenario.spec.fleet
    return fleet.model_copy(
        update={
            key: getattr(fleet, key).model_copy(update=known)
            for key, known in files.items()
            if known
        }
    )


def cohort_of(scenario: Scenario) -> Cohort:
    """Who takes part in a round; one that is listed in a file is read from there.

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
    """The section `cohort` as it was understood: where its file lies, and its hash."""
    return scenario.spec.cohort.model_copy(update=resolved_file(scenario, COHORT))


def require_members(scenario: Scenario, cohort: Cohort, N: int) -> None:
    """Refuse clients in a file of cohorts that are not there.

    Raises:
      DataError: naming file and lines.
    """
    if scenario.spec.cohort.kind != "listed" or not any(client >= N for client in cohort.names):
        return
    file = path_of(scenario, COHORT)
    if not file:
        return
    rows = participations_of(file["path"], scenario.spec.cohort.sha256)
    beyond = np.flatnonzero(rows.client >= N)
    lines = [
        f"line {rows.lines[i]}: there is no client {rows.client[i]}; clients are 0 to {N - 1}"
        for i in beyond[:LISTED]
    ]
    more = [f"and {len(beyond) - LISTED:,} more problems"] if len(beyond) > LISTED else []
    error = DataError(*lines, *more).within(file["path"])
    error.section = COHORT
    raise error


def drawn_cohort(scenario: Scenario, cohort: Cohort, eligible: int) -> Cohort:
    """The cohort that is drawn, larger than the one that is kept where a scenario selects more; the size stays nominal."""
    section, factor = scenario.spec.cohort, scenario.spec.fleet.over_select
    if factor == 1:
        return cohort
    size = min(math.ceil(section.size * factor - 1e-9), eligible)
    larger = {"size": size} | (
        {"candidates": max(section.candidates, size)} if hasattr(section, "candidates") else {}
    )
    return factory_of(section.model_copy(update=larger))()._replace(
        nominal=cohort.nominal, share=None
    )


def unmeant_fleet(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Keys of a fleet that would change nothing, or cannot be followed."""
    spec, fleet = scenario.spec, scenario.spec.fleet
    if fleet.over_select > 1 and not isinstance(getattr(spec.cohort, "size", None), int):
        text = f"{spec.cohort.kind} has no size to end a round at; take the cohort uniform, or take it out"
        yield ("fleet", "over_select"), text
    if not isinstance(fleet.dropout, float) and sum(fleet.dropout.model_dump().values()) > 1 + 1e-9:
        text = "before, during and after are probabilities of the same client, and more than 1 together; lower one"
        yield ("fleet", "dropout"), text
    if fleet.partial_work and fleet.deadline is None:
        yield (
            ("fleet", "partial_work"),
            "nobody is late without a deadline; write fleet.deadline, or take it out",
        )
    if fleet.stragglers is not None and fleet.stragglers.work == "partial":
        name = "steps" if spec.client.steps is not None else "epochs"
        if np.max(getattr(spec.client, name)) == 1:
            text = f"a straggler does 1 to E − 1 of E {name}, and client.{name} is 1; write more, or work: drop"
            yield ("fleet", "stragglers"), text
    if spec.schedule.kind == "sync":
        return
    absent: dict[str, Any] = dict.fromkeys(("deadline", "stragglers"))
    for key, default in {**absent, "over_select": 1.0}.items():
        if getattr(fleet, key) != default:
            text = f"{key} is about rounds of one cohort, and {spec.schedule.kind} has none"
            yield ("fleet", key), f"{text}; take schedule: sync, or take it out"
