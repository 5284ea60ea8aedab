"""Clients as machines: speeds, links, availability, and what becomes of a round."""

import numpy as np
import pytest
from building import built
from conftest import oracle
from numpy.testing import assert_allclose, assert_array_equal
from unchanged import run_of_same_bytes

import fedsim
from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.fields.machines.availability import Moment
from fedsim.fields.machines.links import Rates
from fedsim.fields.machines.machines import Dropout, Fleet, UnequalMachines
from fedsim.fields.machines.stragglers import Stragglers, slowed
from fedsim.fleet import Clients
from fedsim.fleet.clock import Cost
from fedsim.fleet.streams import Stream, generator

N = 2000
LABELS = np.random.default_rng(0).integers(0, 3, (N, 10)) * (
    np.random.default_rng(1).random((N, 10)) < 0.3
)
CLIENTS = Clients(LABELS.sum(1), lambda: LABELS)


def rng() -> np.random.Generator:
    return generator(5, Stream.SPEED)


# ------------------------------------------------------------------------- speeds and availability


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES["speed"] if kind != "trace"])
def test_a_client_s_speed_does_not_depend_on_later_clients(kind):
    factory = FAMILIES["speed"][kind]
    made = factory(seconds=[1.0, 2.0]) if kind == "classes" else factory()
    few = made(Clients(CLIENTS.samples[:10], lambda: LABELS[:10]), rng())
    assert_array_equal(few, made(CLIENTS, rng())[:10])


def test_a_chain_is_the_same_from_any_round():
    made = FAMILIES["availability"]["markov"]()
    uniform = lambda r: generator(7, Stream.AVAILABLE, r).random(N)
    one, other = made.begin(CLIENTS, rng()), made.begin(CLIENTS, rng())
    forward = [made.reached(one, Moment(r, 0.0, uniform)).copy() for r in range(1, 12)]
    for r in (11, 3, 7):
        assert_array_equal(made.reached(other, Moment(r, 0.0, uniform)), forward[r - 1])


# -------------------------------------------------------------------------- what becomes of a round


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


# --------------------------------------------------------------------------------------- whole runs

TINY = {
    "name": "fleet",
    "rounds": 6,
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 12},
    "cohort": {"kind": "uniform", "size": 4},
    "client": {"steps": 4},
}
SLOW = {"speed": {"kind": "lognormal", "sigma": 1.0}}
FLEETS = {
    "clocked": {**SLOW, "availability": {"kind": "diurnal", "period": 30.0}},
    "chain": {"availability": "markov", "dropout": {"before": 0.1, "during": 0.2, "after": 0.2}},
}


def run(**sections) -> fedsim.Result:
    return fedsim.run({**TINY, **sections})


@pytest.mark.long
def test_a_codec_shortens_the_time_of_slow_links():
    """In both directions, by the bytes that `check` predicts: 60 per second, 840 for the model."""
    links = {"kind": "constant", "up": 60.0, "down": 120.0, "latency": 0.5}

    def seconds(**sections):
        plan = built({**TINY, "fleet": {"links": links}, **sections}).plans[0]
        return plan.round(1)[0].seconds

    assert_allclose(seconds(), 4 + 1 + 840 / 60 + 840 / 120)
    assert_allclose(seconds(wire=[{"kind": "top_k", "k": 10}]), 4 + 1 + 50 / 60 + 840 / 120)
    assert_allclose(seconds(broadcast=["cast"]), 4 + 1 + 840 / 60 + 420 / 120)


@pytest.mark.long
def test_wasted_work_adds_up():
    result = run(fleet=FLEETS["chain"], evaluate={"target": 0.7})
    rounds, clients = result.rounds, result.clients
    first = rounds[rounds["test_accuracy"] >= 0.7].iloc[0]
    summary = result.summary.iloc[0]
    assert first["round"] == summary["rounds_to_target"]
    assert 0 < first["virtual_seconds"] == summary["virtual_seconds_to_target"]

    offered = clients["rounds_offered"]
    assert rounds["clients_sampled"].sum() == offered.sum()
    assert offered.equals(clients[["rounds_joined", "rounds_late", "rounds_left"]].sum(axis=1))
    last = rounds.iloc[-1]
    assert last["bytes_up"] == clients["bytes_up"].sum()
    assert last["bytes_down"] == clients["bytes_down"].sum()
    model = rounds["bytes_down"].iloc[1] / 4
    useful = 2 * model * clients["rounds_joined"].sum()
    assert useful + rounds["bytes_wasted"].sum() == last["bytes_up"] + last["bytes_down"]


@pytest.mark.optimised
@pytest.mark.long
@pytest.mark.parametrize("name", ["clocked", "chain"])
def test_kills_and_blocks_change_no_byte(name, tmp_path):
    run_of_same_bytes({**TINY, "rounds": 4, "fleet": FLEETS[name]}, tmp_path, cut=2)


@pytest.mark.long
def test_methods_are_compared_under_the_same_outcomes():
    """Methods of equal cost have the same clients, late ones and lost messages."""
    fleet = {**FLEETS["chain"], **SLOW, "deadline": 4.0}
    columns = ["clients_sampled", "clients_reported", "clients_late", "clients_left"]
    one, other = (run(fleet=fleet, method=method).rounds for method in ("fedavg", "fedprox"))
    assert one[[*columns, "virtual_seconds"]].equals(other[[*columns, "virtual_seconds"]])
    assert one["clients_late"].sum() > 0 and one["clients_left"].sum() > 0


@pytest.mark.parametrize(
    ("fleet", "line"),
    [
        ({"availability": "diurnal(low=1.0)"}, "fleet.availability: diurnal: high 0.9"),
        ({"availability": "markov(leave=0.0, come=0.0)"}, "fleet.availability: markov: come and"),
        ({"stragglers": {"share": 0.5}}, "fleet.stragglers: a straggler .* client.epochs is 1"),
    ],
)
def test_a_fleet_that_makes_no_sense_is_refused(fleet, line):
    with pytest.raises(ScenarioError, match=line):
        run(fleet=fleet, client={"epochs": 1})
