"""The plans of a scenario: who trains when and on what, for every seed."""

from fedsim.assemble.adversary import adversary_of
from fedsim.data import Federation
from fedsim.fleet import Cohort, Fleet, Local, Plan, Timetable
from fedsim.scenario.scenario import Scenario


def plans_of(
    scenario: Scenario,
    federations: dict[int, Federation],
    cohort: Cohort,
    timetable: Timetable,
    fleet: Fleet,
    local: Local,
    labelled: bool = False,
    down: int = 0,
    up: int = 0,
) -> dict[int, Plan]:
    """A plan for every seed.

    Args:
      scenario: as read.
      federations: by seed.
      cohort: who takes part in a round.
      timetable: when the server steps.
      fleet: clients as machines.
      local: how much a client trains.
      labelled: whether clients know how often each class is among their samples.
      down: bytes that a client gets in a round, at most.
      up: bytes that it sends, at most.
    """
    spec = scenario.spec
    return {
        seed: Plan(
            federation=federation,
            cohort=cohort,
            local=local,
            seed=seed,
            rounds=spec.rounds,
            adversary=adversary_of(spec.fleet.malicious, federation.N),
            labelled=labelled,
            timetable=timetable,
            fleet=fleet,
            down=down,
            up=up,
        )
        for seed, federation in federations.items()
    }
