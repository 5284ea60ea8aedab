"""What becomes of a round of unequal machines: by oracle cases, and in a loop over events."""

import numpy as np
import pytest
from conftest import oracle
from numpy.testing import assert_allclose, assert_array_equal

from fedsim.fields.machines.links import Rates
from fedsim.fields.machines.machines import Dropout, Fleet, UnequalMachines
from fedsim.fields.machines.stragglers import Stragglers, slowed
from fedsim.fleet import Clients
from fedsim.fleet.clock import Cost
from fedsim.fleet.streams import Stream, generator


def machines(fleet: Fleet, steps, down=0, up=0) -> UnequalMachines:
    steps = np.asarray(steps)
    return UnequalMachines(
        fleet,
        Clients(np.ones(len(steps), int), lambda: np.zeros((len(steps), 0), int)),
        Cost(steps, down, up),
        3,
    )


ROUNDS = [case for case in oracle("systems") if case["fn"] == "sync_round"]


@pytest.mark.parametrize("case", ROUNDS, ids=lambda case: case["name"])
def test_rounds_match_the_oracle(case):
    p, times = case["params"], np.array(case["inputs"]["times"])
    fleet = Fleet(
        speed=lambda clients, rng: times,
        deadline=p.get("deadline") or np.inf,
        report_goal=p.get("keep") or p.get("k"),
    )
    ids = np.array(p["selected"])
    outcome = machines(fleet, np.ones(len(times), int)).round_outcome(1, ids)
    assert ids[outcome.joined].tolist() == sorted(case["expected"]["reporting"])
    assert_allclose(outcome.seconds, case["expected"]["round_time"], rtol=case["rtol"])


@pytest.mark.parametrize(
    "links", [None, lambda clients, rng: (50.0, np.array([9.0, 7, np.inf, 3]), 0.3)]
)
def test_a_round_without_a_deadline_equals_one_with_a_distant_deadline(links):
    speed = lambda clients, rng: np.array([0.1, 0.0, 3.0, 0.7])
    fleet, ids = Fleet(speed=speed, links=links), np.array([0, 1, 3])
    quick, slow = (machines(f, [5, 0, 7, 3], 11, 13) for f in (fleet, fleet._replace(deadline=1e9)))
    assert quick.fleet.complete and not slow.fleet.complete
    for chosen in (ids, ids[:0]):
        for name, want in slow.round_outcome(1, chosen)._asdict().items():
            assert_array_equal(getattr(quick.round_outcome(1, chosen), name), want, err_msg=name)


def event_by_event(step, able, silent, down, up, deadline, keep, partial, leaves) -> dict:
    """A round as a loop over clients and local steps, without arrays."""
    ends, done, gone = {}, {}, {}
    for i in range(len(step)):
        if leaves[i] is not None:
            gone[i] = 0.0 if leaves[i] == "before" else down + leaves[i] * able[i] * step[i]
            continue
        t, count = down, 0
        while count < able[i] and (t + step[i] + up <= deadline + 1e-9 or not partial):
            t, count = t + step[i], count + 1
        if count and t + up <= deadline + 1e-9:
            ends[i], done[i] = t + up, count
    first = sorted((i for i in ends if not silent[i]), key=lambda i: (ends[i], i))
    if keep is not None and len(first) >= keep:
        joined, length = first[:keep], ends[first[keep - 1]]
    else:
        waits = [*ends.values(), *gone.values()]
        missing = len(ends) + len(gone) < len(step)
        joined, length = first, deadline if missing else min(max(waits, default=0.0), deadline)
    return {
        "joined": sorted(joined),
        "seconds": length,
        "steps": [done.get(i, 0) if i in joined else 0 for i in range(len(step))],
    }


def leaving(r: int, i: int, shares: Dropout) -> str | float | None:
    """When a client leaves: before it has the model, or after a share of its training."""
    u, share_done = generator(3, Stream.DROPOUT, r, i).random(2)
    if u < shares.before:
        return "before"
    return float(share_done) if u < shares.before + shares.during else None


def test_rounds_match_a_loop_over_events():
    """In every second one are stragglers, who take the time of all steps and do fewer."""
    draws = np.random.default_rng(11)
    for r in range(1, 241):
        m = int(draws.integers(1, 9))
        step, planned = draws.random(m) + 0.1, draws.integers(2, 7, m)
        deadline = float(draws.choice([np.inf, 1.0, 2.5]))
        partial = bool(draws.random() < 0.5) and np.isfinite(deadline)
        shares = Dropout(0.2, 0.2, 0.0) if draws.random() < 0.5 else Dropout()
        drop = bool(draws.random() < 0.5)
        ids = np.arange(m)
        fleet = Fleet(
            speed=lambda clients, rng, step=step: step,
            links=lambda clients, rng: Rates(20.0, 10.0),
            dropout=shares, deadline=deadline, partial=partial,
        )  # fmt: skip
        slow, able = np.zeros(m, bool), planned
        if r % 2:
            fleet = fleet._replace(report_goal=int(draws.integers(1, m + 1)))
        else:
            fleet = fleet._replace(stragglers=Stragglers(0.5, drop))
            slow, able = slowed(Stragglers(0.5), 3, r, ids, planned, planned)

        outcome = machines(fleet, planned, down=4, up=3).round_outcome(r, ids)
        leaves = [leaving(r, i, shares) for i in range(m)]
        expected = event_by_event(
            step * planned / able, able, slow & drop, 0.2, 0.3,
            deadline, fleet.report_goal, partial, leaves,
        )  # fmt: skip
        assert np.flatnonzero(outcome.joined).tolist() == expected["joined"]
        assert_allclose(outcome.seconds, expected["seconds"], rtol=1e-9)
        assert outcome.steps.tolist() == expected["steps"]
        assert (outcome.joined ^ outcome.late ^ outcome.left).all()
        assert (outcome.wasted <= able).all() and not (drop and (outcome.sent & slow).any())


def test_a_deadline_that_a_client_just_meets_is_met():
    """Steps that fit exactly are not lost to rounding."""
    fleet = Fleet(speed=lambda clients, rng: np.full(3, 0.1), deadline=0.3, partial=True)
    outcome = machines(fleet, [3, 4, 30]).round_outcome(1, np.arange(3))
    assert outcome.steps.tolist() == [3, 3, 3] and outcome.joined.all()
