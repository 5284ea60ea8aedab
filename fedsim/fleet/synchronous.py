"""The rounds of a synchronous server, whose clients all start from the newest model."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedsim.fleet.round_plan import Participants, RoundPlan, State, not_joined
from fedsim.fleet.selection import HISTORY, Drawn
from fedsim.fleet.streams import Stream, generator

if TYPE_CHECKING:
    from fedsim.fleet.plan import Plan


def begin(plan: "Plan") -> State:
    """Return the state before round 1; empty where no round depends on the ones before it."""
    state: State = {}
    if HISTORY in plan.cohort.needs:
        never = np.zeros(len(plan.sizes), np.int64)
        state |= {"drawn": never, "last": never}
    if plan.machines.clocked:
        state |= {"clock": np.array(0.0)}
    for waiting in plan.waiting:
        state |= {waiting.name: waiting.begin()}
    return state


def plan_round(
    plan: "Plan", r: int, state: State, feedback: Mapping[str, np.ndarray]
) -> tuple[RoundPlan, State]:
    """Plan round r -> the round, and the state after it."""
    drawn, count = _drawn_clients(plan, r, state, feedback)

    # A client that is out is drawn in vain, so that the others are drawn as ever.
    takes_part = ~plan.in_vain[drawn]
    ids = drawn[takes_part]
    count = count[takes_part]
    outcome = plan.machines.round_outcome(r, ids)

    joined = outcome.joined
    K = int(joined.sum())
    participants = Participants(
        ids=ids[joined],
        count=count[joined],
        steps=outcome.steps[joined],
        start=np.full(K, r - 1, np.int64),
        draw=np.full(K, r, np.int64),
    )
    work = plan.work_in(r, participants, plan.local.lr(r), outcome.seconds)
    if not joined.all():
        work = work._replace(uncounted=not_joined(ids, outcome))

    # Where parts of the federation go on by themselves, a round lasts until the last has ended it.
    for waiting in plan.waiting:
        before = state[waiting.name]
        after = waiting.next_start(plan, work, ids, before)
        work = work._replace(seconds=float(after.max() - before.max()))
        state = {**state, waiting.name: after}
    return work, _state_after(plan, r, state, drawn, work.seconds)


def _drawn_clients(
    plan: "Plan", r: int, state: State, feedback: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the clients of round r among those that can be reached -> (rising ids, count)."""
    rng = generator(plan.seed, Stream.COHORT, r)
    columns = dict(feedback)
    columns |= {name: state[name] for name in ("drawn", "last") if name in state}
    eligible = {name: column[plan.eligible] for name, column in columns.items()}
    population = plan.population._replace(**eligible)

    # Most cohorts draw among the clients that can be reached. One whose rounds name their clients
    # draws first, and those that cannot be reached are left out afterwards.
    clock = float(state["clock"]) if "clock" in state else 0.0
    reachable = plan.machines.reachable(r, clock)
    if reachable is not None and not plan.cohort.ordered:
        population = population.subset(reachable[population.ids])

    nobody_there = len(population.ids) == 0
    drawn = population.ids if nobody_there else plan.cohort.draw(population, r, rng)

    if isinstance(drawn, Drawn):
        order = np.argsort(drawn.ids)
        return drawn.ids[order], drawn.factor[order]
    if reachable is not None and plan.cohort.ordered:
        drawn = drawn[reachable[drawn]]
    if plan.cohort.repeats:
        return np.unique(drawn, return_counts=True)
    return np.sort(drawn), np.ones(len(drawn), int)


def _state_after(plan: "Plan", r: int, state: State, ids: np.ndarray, seconds: float) -> State:
    after: State = {waiting.name: state[waiting.name] for waiting in plan.waiting}
    if "clock" in state:
        after |= {"clock": state["clock"] + seconds}
    if "drawn" in state:
        drawn = state["drawn"].copy()
        drawn[ids] += 1
        last = state["last"].copy()
        last[ids] = r
        after |= {"drawn": drawn, "last": last}
    return after
