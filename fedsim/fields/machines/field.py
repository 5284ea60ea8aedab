"""What machines add to how a scenario is checked and built."""

from functools import partial
from typing import Any

from fedsim.assemble.facts import Facts
from fedsim.assemble.links import locate_link_errors
from fedsim.engine.meters import Meter
from fedsim.engine.meters.traffic import Pooled
from fedsim.field import Field, RunSetting, SeedSetting
from fedsim.fields.machines import checks
from fedsim.fields.machines.build import drawn_cohort, fleet_of, resolved_fleet
from fedsim.fields.machines.machines import Fleet, UnequalMachines
from fedsim.fields.machines.meters import Dropouts, Joules
from fedsim.fields.machines.timelines import FirstRound
from fedsim.fleet.plan import Conditions
from fedsim.scenario.scenario import Scenario


def _components(facts: Facts) -> None:
    make = locate_link_errors(fleet_of)
    fleet = facts.attempt(make, facts.scenario, reads=[("fleet",), ("cohort",)])
    facts.learn(fleet=fleet)


def _planned(facts: Facts) -> Any:
    """Return the fleet, unless it is like that of a plan without any."""
    fleet = facts.maybe("fleet")
    return None if fleet == Fleet() else fleet


def _conditions(conditions: Conditions, setting: SeedSetting) -> Conditions:
    if setting.planned.is_plain:
        return conditions
    return conditions._replace(machines=partial(UnequalMachines, setting.planned))


def _meters(setting: RunSetting) -> list[Meter]:
    meters: list[Meter] = [FirstRound(setting.plan)]
    if setting.plan.machines.selective:
        meters.insert(0, Dropouts(setting.traffic))
    if setting.planned is not None and setting.planned.energy is not None:
        if not isinstance(setting.traffic, Pooled):  # which has no clients
            meters.insert(0, Joules(setting.traffic, *setting.planned.energy))
    return meters


def _resolved(scenario: Scenario) -> dict[str, Any]:
    return {"fleet": resolved_fleet(scenario)}


FIELD = Field(
    voices=[checks.machine_voices, checks.missing_voice],
    calculations=[checks.idle_fleet_keys, checks.energy_of_clients, checks.private_fleet],
    components=_components,
    cohort=drawn_cohort,
    planned=_planned,
    conditions=_conditions,
    meters=_meters,
    resolved=_resolved,
    sections={
        "fleet.deadline": {"fleet": {"deadline": 5}},
        "fleet.over_select": {"fleet": {"over_select": 1.5}},
        "fleet.energy": {"fleet": {"energy": {"per_step": 1}}},
        "fleet.stragglers": {"fleet": {"stragglers": {"share": 0.5}}},
    },
    keeps_away=("fleet.deadline", "fleet.availability", "fleet.dropout"),
    shares=checks.shares,
)
