"""Small plans whose rounds can be computed by hand: six clients, and numbers instead of draws."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from fedsim.data import Federation, Holders, Samples
from fedsim.fleet import Cohort, Local, Plan, Timetable
from fedsim.fleet.plan import Conditions
from fedsim.fleet.timetables import SYNC

SIZES = (3, 1, 4, 2, 2, 5)
COHORTS: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("all", {}),
    "uniform": ("uniform", {"size": 2}),
    "poisson": ("poisson", {"rate": 0.5}),
    "weighted": ("weighted", {"size": 2}),
    "cyclic": ("cyclic", {"size": 2}),
    "listed": ("listed", {"rounds": [[1, 2], [2, 4]]}),
    "power_of_choice": ("power_of_choice", {"size": 2, "candidates": 3}),
    "importance by norm": ("importance", {"size": 2, "by": "norm", "floor": 0.6}),
    "importance by loss": ("importance", {"size": 2, "by": "loss", "floor": 0.6}),
    "oort": ("oort", {"size": 2}),
    "clustered by samples": ("clustered", {"size": 2, "by": "samples"}),
    "clustered by similarity": ("clustered", {"size": 2, "by": "similarity"}),
    "divfl": ("divfl", {"size": 2, "candidates": 3}),
    "fedcs": ("fedcs", {"candidates": 3}),
    "least_participated": ("least_participated", {"size": 2}),
    "separated": ("separated", {"size": 2, "gap": 2}),
    "cyclic_poisson": ("cyclic_poisson", {"groups": 2, "rate": 0.5}),
    "tifl": ("tifl", {"size": 2, "tiers": 3}),
    "round_robin_by_class": ("round_robin_by_class", {"size": 2}),
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "sync": {},
    "fedbuff": {"buffer": 2, "concurrency": 3},
    "fedasync": {"concurrency": 2},
    "semi_sync": {"seconds": 3.0, "concurrency": 3},
}


def federation_of(sizes: Sequence[int] = SIZES) -> Federation:
    """Clients with these numbers of samples, whose two classes alternate; nothing is held out."""
    n, no_rows = sum(sizes), np.zeros(0, np.int32)
    none = Samples(np.zeros((0, 1), np.float32), no_rows)
    return Federation(
        train=Samples(np.zeros((n, 1), np.float32), np.arange(n) % 2),
        test=none,
        validation=none,
        server=none,
        holders=Holders(np.arange(n, dtype=np.int32), np.concatenate([[0], np.cumsum(sizes)])),
        test_holders=Holders(no_rows, np.zeros(len(sizes) + 1, np.int64)),
        classes=2,
        has_client_ids=False,
    )


def plan_of(
    cohort: Cohort,
    fleet: Mapping[str, Any] = MappingProxyType({}),
    timetable: Timetable = SYNC,
    sizes: Sequence[int] = SIZES,
    steps: int = 1,
    rounds: int = 9,
    **sent: Any,
) -> Plan:
    """Local steps of a round take a second each, unless the fleet has another speed."""
    local = Local(
        batch=4, epochs=None, steps=steps, shuffle=True, drop_last=False, lr=lambda r: 1 / r
    )
    return Plan(
        federation_of(sizes),
        cohort,
        local,
        seed=3,
        rounds=rounds,
        conditions=Conditions(timetable=timetable, **sent, **machines_of(fleet)),
    )


def machines_of(fleet: Mapping[str, Any]) -> dict[str, Any]:
    """The condition of a plan that a fleet is, by its attributes; none where it has none."""
    if not fleet:
        return {}
    from fedsim.fields.machines.machines import Fleet, UnequalMachines

    return {"machines": partial(UnequalMachines, Fleet(**fleet))}


def speed_of(seconds: Sequence[float]) -> Callable[..., np.ndarray]:
    """Seconds of a local step, client by client."""
    return lambda clients, rng: np.array(seconds, float)


class Numbers:
    """Replaces a generator: each call returns the next of the given draws."""

    def __init__(self, *draws: Any):
        self.draws = [np.array(draw) for draw in draws]

    def random(self, size: Any = None) -> np.ndarray:
        """The next ones."""
        del size
        return self.draws.pop(0)

    standard_normal = random

    def integers(self, most: int, size: Any = None) -> np.ndarray:
        """The next ones."""
        del most, size
        return self.draws.pop(0)
