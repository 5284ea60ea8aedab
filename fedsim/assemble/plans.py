"""The plans of a scenario: who trains when and on what, for every seed."""

from typing import NamedTuple, TypeVar

from fedsim.assemble.adversary import adversary_of
from fedsim.data import Federation
from fedsim.fleet import Cohort, Fleet, Local, Plan, Timetable
from fedsim.scenario.scenario import Scenario

T = TypeVar("T")


class PlanInputs(NamedTuple):
    """What decides the rounds of every seed."""

    cohort: Cohort  # who takes part in a round
    timetable: Timetable  # when the server steps
    fleet: Fleet  # the clients' devices
    local: Local  # how much a client trains


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
      scenario: as read.
      federations: by seed.
      inputs: what decides the rounds of every seed.
      labelled: whether clients know how many of their samples are in each class.
      bytes_down: the most bytes that a client receives in a round.
      bytes_up: the most bytes that it sends.
    """
    spec = scenario.spec
    return {
        seed: Plan(
            federation=federation,
            cohort=inputs.cohort,
            local=inputs.local,
            seed=seed,
            rounds=spec.rounds,
            adversary=adversary_of(spec.fleet.malicious, federation.N),
            labelled=labelled,
            timetable=inputs.timetable,
            fleet=inputs.fleet,
            down=bytes_down,
            up=bytes_up,
        )
        for seed, federation in federations.items()
    }


def of_first_seed(by_seed: dict[int, T]) -> T:
    """Return the value of the first seed, where only what all seeds share matters."""
    return next(iter(by_seed.values()))
