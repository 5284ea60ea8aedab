"""The plans of a scenario: who trains when and on what, for every seed."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from fedsim.assemble.adversary import adversary_of
from fedsim.assemble.cohort import require_members
from fedsim.assemble.facts import Facts
from fedsim.assemble.fields import fields
from fedsim.assemble.problems import UNKNOWN, all_known
from fedsim.data import Federation
from fedsim.field import SeedSetting
from fedsim.fleet import Cohort, Local, Plan, Timetable
from fedsim.fleet.local import batches_per_epoch, planned_steps
from fedsim.fleet.plan import Conditions
from fedsim.fleet.selection import all as everybody
from fedsim.scenario.scenario import Scenario
from fedsim.types.client import POOLED

T = TypeVar("T")


class PlanInputs(NamedTuple):
    """What decides the rounds of every seed."""

    cohort: Cohort  # who takes part in a round
    timetable: Timetable  # when the server steps
    local: Local  # how much a client trains
    # whether all samples are pooled, and whose steps a round then takes
    pools: Literal["client", "cohort"] | None = None
    of_fields: Mapping[str, Any] = {}  # what fields plan, by name


def count_messages(facts: Facts) -> None:
    """Say how many messages the server takes in a step, when all of its clients report."""

    def nominal(cohort: Cohort, timetable: Timetable, N: int) -> int:
        return timetable.buffer or cohort.nominal(N)

    known = (facts.maybe("cohort"), facts.maybe("timetable"), facts.maybe("N"))
    facts.learn(K=facts.attempt(nominal, *known))


def draw_cohort(facts: Facts) -> None:
    """Draw another cohort where a field selects more clients than the scenario needs."""
    cohort = facts.maybe("cohort")
    facts.attempt(require_members, facts.scenario, cohort, facts.maybe("N"))
    eligible = facts.maybe("eligible")
    if not facts.errors and all_known(cohort, eligible):
        for field in fields().values():
            cohort = field.cohort(facts.scenario, cohort, eligible)
        facts.learn(cohort=cohort)
    facts.learn(plan_inputs=_plan_inputs(facts))


def _plan_inputs(facts: Facts) -> PlanInputs:
    client = facts.maybe("client")
    pools: Any = UNKNOWN
    local = facts.maybe("local")
    if client is not UNKNOWN:
        pools = client.server if client.not_federated == POOLED else None
        local = UNKNOWN if local is UNKNOWN else local._replace(phases=client.phases)
    return PlanInputs(
        cohort=facts.maybe("cohort"),
        timetable=facts.maybe("timetable"),
        local=local,
        pools=pools,
        of_fields=_planned_by_fields(facts),
    )


def _planned_by_fields(facts: Facts) -> Any:
    """Return what fields plan, by name; UNKNOWN where that of one is."""
    planned = {name: field.planned(facts) for name, field in fields().items()}
    planned = {name: value for name, value in planned.items() if value is not None}
    return planned if all_known(*planned.values()) else UNKNOWN


def plan_shares(facts: Facts) -> None:
    """Make the plans where a rule divides by how often each client takes part."""
    rule = facts.rule
    if rule is None or "share" not in rule.made.needs:
        return
    if facts.refused("client", "cohort", "fleet", "schedule"):
        return

    def make(federations: dict[int, Federation], *inputs: Any) -> dict[int, Plan]:
        return plans_of(facts.scenario, federations, PlanInputs(*inputs))

    plans = facts.attempt(make, facts.maybe("federations"), *facts.plan_inputs)
    facts.learn(plans=plans)


def plans_of(
    scenario: Scenario,
    federations: dict[int, Federation],
    inputs: PlanInputs,
    *,
    labelled: bool = False,
    bytes_down: int = 0,
    bytes_up: int = 0,
) -> dict[int, Plan]:
    """Return a plan for every seed.

    Args:
      federations: by seed.
      labelled: whether clients know how many of their samples are in each class.
      bytes_down: the most bytes that a client receives in a round.
      bytes_up: the most bytes that it sends.
    """
    spec = scenario.spec
    if inputs.pools is not None:
        return {
            seed: _pooled_plan(federation, inputs, seed, spec.rounds)
            for seed, federation in federations.items()
        }
    plans = {}
    for seed, federation in federations.items():
        conditions = Conditions(
            adversary=adversary_of(spec.fleet.malicious, federation.N),
            timetable=inputs.timetable,
            down=bytes_down,
            up=bytes_up,
            labelled=labelled,
            absent=absent_clients(scenario, federation.N),
        )
        for name, planned in inputs.of_fields.items():
            change = fields()[name].conditions
            if change is not None:
                setting = SeedSetting(scenario, federation, seed, planned, bytes_down, bytes_up)
                conditions = change(conditions, setting)
        plans[seed] = Plan(
            federation=federation,
            cohort=inputs.cohort,
            local=inputs.local,
            seed=seed,
            rounds=spec.rounds,
            conditions=conditions,
        )
    return plans


def absent_clients(scenario: Scenario, N: int) -> np.ndarray:
    """Return which of N clients never take part (`fleet.without`) `[N]`."""
    return np.isin(np.arange(N), scenario.spec.fleet.without)


def _pooled_plan(federation: Federation, inputs: PlanInputs, seed: int, rounds: int) -> Plan:
    """Return the plan of pooled training: the only client has all samples, and nothing is sent."""
    pooled = federation.pooled
    steps = pooled_steps(federation, inputs)
    local = inputs.local._replace(epochs=None, steps=steps)

    # The samples are in the order of the clients: without a shuffle, a round that does not pass
    # over all of them would only ever see those of the first clients.
    if federation.N > 1 and steps < batches_per_epoch(pooled.sizes, local)[0]:
        local = local._replace(shuffle=True)
    return Plan(
        federation=pooled,
        cohort=everybody(),
        local=local,
        seed=seed,
        rounds=rounds,
    )


def pooled_steps(federation: Federation, inputs: PlanInputs) -> int:
    """Return the steps that a round of pooled training takes, at least 1.

    They are those of the mean client with samples, or of a nominal cohort of such clients.
    """
    sizes = federation.sizes
    steps = planned_steps(sizes, inputs.local)[sizes > 0]  # [clients with samples]
    mean = float(steps.mean()) if len(steps) else 0.0
    if inputs.pools == "cohort":
        mean *= inputs.timetable.buffer or inputs.cohort.nominal(federation.N)
    return max(int(mean + 0.5), 1)


def of_first_seed(by_seed: dict[int, T]) -> T:
    """Return the value of the first seed, where only what all seeds share matters."""
    return next(iter(by_seed.values()))


def of_widest_batch(plans: dict[int, Plan]) -> Plan:
    """Return the plan of the seed whose batches take the most memory."""
    return max(plans.values(), key=lambda plan: plan.batch_rows)
