"""Clients as machines: speeds, links, availability, and what becomes of a round."""

import json

import numpy as np
import pytest
from conftest import TESTS
from numpy.testing import assert_allclose, assert_array_equal
from test_codecs import SIZES, D, problem_arrays, quadratics

import fedsim
from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.fields.machines.availability import Moment
from fedsim.fields.machines.links import Rates
from fedsim.fields.machines.machines import Dropout, Fleet, UnequalMachines
from fedsim.fleet import Clients
from fedsim.fleet.clock import Cost
from fedsim.fleet.streams import Stream, generator

SYSTEMS = json.loads((TESTS / "oracles" / "systems.json").read_text())
N = 2000
LABELS = np.random.default_rng(0).integers(0, 3, (N, 10)) * (
    np.random.default_rng(1).random((N, 10)) < 0.3
)
CLIENTS = Clients(LABELS.sum(1), lambda: LABELS)


def rng() -> np.random.Generator:
    return generator(5, Stream.SPEED)


def cases(fn: str) -> list[dict]:
    return [case for case in SYSTEMS["cases"] if case["fn"] == fn]


# --------------------------------------------------------------------------------- speeds and links

QUANTILES = {  # kind -> (arguments, cumulative distribution function)
    "uniform": ({"low": 1.0, "high": 3.0}, lambda s: (s - 1) / 2),
    "pareto": ({"least": 2.0, "shape": 3.0}, lambda s: 1 - (2 / s) ** 3),
}


@pytest.mark.parametrize("kind", QUANTILES)
def test_speeds_have_their_distribution(kind):
    """Kolmogorov's distance exceeds 1.95 / √N for one seed in a thousand; this seed is fixed."""
    arguments, cdf = QUANTILES[kind]
    drawn = np.sort(FAMILIES["speed"][kind](**arguments)(CLIENTS, rng()))
    assert np.abs(cdf(drawn) - (np.arange(N) + 0.5) / N).max() < 1.95 / np.sqrt(N)


def test_other_speeds_and_links_have_their_distribution():
    of = lambda kind, **arguments: FAMILIES["speed"][kind](**arguments)(CLIENTS, rng())
    assert (of("constant", seconds=0.25) == 0.25).all()
    logs = np.log(of("lognormal", median=3.0, sigma=0.5) / 3.0)
    assert abs(logs.mean()) < 5 * 0.5 / np.sqrt(N) and abs(logs.std() - 0.5) < 5 * 0.5 / np.sqrt(
        2 * N
    )
    drawn = of("classes", seconds=[1.0, 5.0], shares=[3.0, 1.0])
    assert set(drawn) == {1.0, 5.0} and abs((drawn == 5).mean() - 0.25) < 5 * np.sqrt(
        0.25 * 0.75 / N
    )
    link = FAMILIES["link"]["lognormal"](up=10.0, down=1000.0, sigma=1.0)(CLIENTS, rng())
    assert_allclose(link.down / link.up, 100.0)


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES["speed"] if kind != "trace"])
def test_a_client_s_speed_does_not_depend_on_later_clients(kind):
    factory = FAMILIES["speed"][kind]
    made = factory(seconds=[1.0, 2.0]) if kind == "classes" else factory()
    few = made(Clients(CLIENTS.samples[:10], lambda: LABELS[:10]), rng())
    assert_array_equal(few, made(CLIENTS, rng())[:10])


# ------------------------------------------------------------------------------------- availability


def reached(kind: str, rounds: int, seconds=lambda r: 0.0, **arguments) -> np.ndarray:
    """Who can be reached in the rounds 1 … `rounds` `[rounds, N]`."""
    made = FAMILIES["availability"][kind](**arguments)
    fixed = made.begin(CLIENTS, generator(7, Stream.AVAILABILITY))
    uniform = lambda r: generator(7, Stream.AVAILABLE, r).random(N)
    return np.array(
        [made.reached(fixed, Moment(r, seconds(r), uniform)) for r in range(1, rounds + 1)]
    )


def near(observed, expected, draws: int) -> bool:
    """Shares of Bernoulli draws, at 5 standard deviations."""
    expected = np.asarray(expected)
    return bool(
        (
            np.abs(observed - expected) <= 5 * np.sqrt(expected * (1 - expected) / draws) + 1e-12
        ).all()
    )


def test_markov_availability_matches_the_oracle():
    (case,) = cases("markov")
    leave, come = case["params"]["p_on_to_off"], case["params"]["p_off_to_on"]
    on = reached("markov", 400, leave=leave, come=come)
    assert abs(on.mean() - case["expected"]["stationary_on"]) < 5 * np.sqrt(
        0.25 * (1 + 0.7) / (1 - 0.7) / on.size
    )
    centred = on - on.mean()
    lag = (centred[1:] * centred[:-1]).mean() / (centred**2).mean()
    assert abs(lag - case["expected"]["lag1_autocorr"]) < 0.005
    assert near((on[:-1] & ~on[1:]).sum() / on[:-1].sum(), leave, on[:-1].sum())


def test_a_chain_is_the_same_from_any_round():
    made = FAMILIES["availability"]["markov"]()
    uniform = lambda r: generator(7, Stream.AVAILABLE, r).random(N)
    one, other = made.begin(CLIENTS, rng()), made.begin(CLIENTS, rng())
    forward = [made.reached(one, Moment(r, 0.0, uniform)).copy() for r in range(1, 12)]
    for r in (11, 3, 7):
        assert_array_equal(made.reached(other, Moment(r, 0.0, uniform)), forward[r - 1])


def test_availability_probabilities_match_their_formulas():
    R = 400
    held = LABELS > 0
    assert reached("always", 2).all()
    assert near(reached("bernoulli", R, rate=0.3).mean(0), np.full(N, 0.3), R)
    n = np.where(CLIENTS.samples > 0, CLIENTS.samples, np.nan)
    more = np.nan_to_num((n / np.nanmax(n)) ** 0.5)
    assert near(reached("size_dependent", R, exponent=0.5).mean(0), more, R)
    fewer = np.nan_to_num((n / np.nanmin(n)) ** -1.0)
    assert near(reached("size_dependent", R, exponent=-1.0).mean(0), fewer, R)
    smallest = np.where(held.any(1), held.argmax(1), 0) / 9
    assert near(reached("label_dependent", R, strength=0.4).mean(0), 0.6 + 0.4 * smallest, R)
    kinds = 0.5 + 0.5 * held.mean(1)
    assert near(reached("label_dependent", R, by="fewest", strength=0.5).mean(0), kinds, R)


def test_lognormal_probabilities_are_log_normal_with_a_maximum_of_1():
    made = FAMILIES["availability"]["lognormal"](sigma=0.7)
    p = made.share(made.begin(CLIENTS, rng()))
    assert p.max() == 1 and abs(np.log(p).std() - 0.7) < 5 * 0.7 / np.sqrt(2 * N)
    of_run = made.share(made.begin(CLIENTS, generator(7, Stream.AVAILABILITY)))
    assert near(reached("lognormal", 400, sigma=0.7).mean(0), of_run, 400)


def test_periodic_availability_matches_its_formulas():
    held = LABELS > 0
    some = held.any(1)
    first, last = held.argmax(1) / 9, (9 - held[:, ::-1].argmax(1)) / 9
    on = reached("label_dependent", 24, by="cycle", strength=1.0)
    for r in range(1, 25):
        place = (1 + r % 24) / 24
        assert_array_equal(on[r - 1], some & (first <= place) & (place <= last))
    wave = reached("lognormal", 240, sigma=0.0, period=24)
    shares = wave.reshape(10, 24, N).mean((0, 2))
    rounds = np.arange(1, 25) % 24
    assert near(shares, 0.4 * np.sin(2 * np.pi * rounds / 23) + 0.5, 10 * N)
    day = reached("diurnal", 48, lambda r: 3600.0 * r, low=0.2, high=0.8, zones=1)
    hours = np.arange(1, 49)
    assert near(day.mean(1), 0.2 + 0.6 * (1 + np.sin(2 * np.pi * hours / 24)) / 2, N)
    spread = reached("diurnal", 24, lambda r: 3600.0 * r, low=0.0, high=1.0, zones=24)
    assert near(spread.mean(1), np.full(24, 0.5), N)  # it is always night somewhere


# -------------------------------------------------------------------------- what becomes of a round


def machines(fleet: Fleet, steps, down=0, up=0) -> UnequalMachines:
    steps = np.asarray(steps)
    return UnequalMachines(
        fleet,
        Clients(np.ones(len(steps), int), lambda: np.zeros((len(steps), 0), int)),
        Cost(steps, down, up),
        3,
    )


@pytest.mark.parametrize("case", cases("sync_round"), ids=lambda case: case["name"])
def test_rounds_match_the_oracle(case):
    p, times = case["params"], case["inputs"]["times"]
    times = np.array(SYSTEMS["arrays"][times[1:]] if isinstance(times, str) else times)
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


def event_by_event(step, planned, down, up, deadline, keep, partial, leaves) -> dict:
    """A round as a loop over clients and local steps, without arrays."""
    ends, done, gone = {}, {}, {}
    for i in range(len(step)):
        if leaves[i] is not None:
            gone[i] = 0.0 if leaves[i] == "before" else down + leaves[i] * planned[i] * step[i]
            continue
        t, count = down, 0
        while count < planned[i] and (t + step[i] + up <= deadline + 1e-9 or not partial):
            t, count = t + step[i], count + 1
        if count and t + up <= deadline + 1e-9:
            ends[i], done[i] = t + up, count
    first = sorted(ends, key=lambda i: (ends[i], i))
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


def test_rounds_match_a_loop_over_events():
    draws = np.random.default_rng(11)
    for _ in range(300):
        m = int(draws.integers(1, 9))
        step, planned = draws.random(m) + 0.1, draws.integers(1, 6, m)
        deadline = float(draws.choice([np.inf, 1.0, 2.5]))
        keep = None if draws.random() < 0.5 else int(draws.integers(1, m + 1))
        partial = bool(draws.random() < 0.5) and np.isfinite(deadline)
        shares = Dropout(0.2, 0.2, 0.0) if draws.random() < 0.5 else Dropout()
        fleet = Fleet(
            speed=lambda clients, rng, step=step: step,
            links=lambda clients, rng: Rates(20.0, 10.0),
            dropout=shares, deadline=deadline, partial=partial, report_goal=keep,
        )  # fmt: skip
        made = machines(fleet, planned, down=4, up=3)
        outcome, moments = made.round_outcome(1, np.arange(m)), made._leaving(1, np.arange(m))
        leaves = [None if not np.isfinite(u) else "before" if u < 0 else float(u) for u in moments]
        expected = event_by_event(step, planned, 0.2, 0.3, deadline, keep, partial, leaves)
        assert np.flatnonzero(outcome.joined).tolist() == expected["joined"]
        assert_allclose(outcome.seconds, expected["seconds"], rtol=1e-9)
        assert outcome.steps.tolist() == expected["steps"]
        assert (outcome.joined ^ outcome.late ^ outcome.left).all()
        assert (outcome.wasted <= planned).all()


def test_a_deadline_that_a_client_just_meets_is_met():
    """Steps that fit exactly are not lost to rounding."""
    fleet = Fleet(speed=lambda clients, rng: np.full(3, 0.1), deadline=0.3, partial=True)
    outcome = machines(fleet, [3, 4, 30]).round_outcome(1, np.arange(3))
    assert outcome.steps.tolist() == [3, 3, 3] and outcome.joined.all()


def test_a_million_clients_are_planned_quickly():
    """Availability of everybody and Pareto speeds: shapes and values, not the time."""
    many = Clients(np.ones(10**6, int), lambda: np.zeros((10**6, 0), int))
    fleet = Fleet(FAMILIES["speed"]["pareto"](), availability=FAMILIES["availability"]["diurnal"]())
    made = UnequalMachines(fleet, many, Cost(np.full(10**6, 5)), 0)
    on = made.reachable(1, 0.0)
    assert on is not None and 0.45 < on.mean() < 0.55
    assert made.round_outcome(1, np.flatnonzero(on)[:1000]).joined.all()


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
    "deadline": {**SLOW, "deadline": 4.0},
    "partial": {**SLOW, "deadline": 4.0, "partial_work": True},
    "more": {**SLOW, "over_select": 2.0},
    "clocked": {**SLOW, "availability": {"kind": "diurnal", "period": 30.0}},
    "stragglers": {**SLOW, "stragglers": {"share": 0.5, "work": "drop"}},
    "chain": {"availability": "markov", "dropout": {"before": 0.1, "during": 0.2, "after": 0.2}},
}


def run(**sections) -> fedsim.Result:
    return fedsim.run({**TINY, **sections})


@pytest.mark.long
def test_a_fleet_of_equal_machines_changes_nothing():
    plain, same = run(), run(fleet={"speed": "constant", "links": "constant", "availability": None})
    assert plain.rounds.equals(same.rounds)


@pytest.mark.long
def test_a_codec_shortens_the_time_of_slow_links():
    """In both directions, by the bytes that `check` predicts: 60 per second, 840 for the model."""
    slow = {"links": {"kind": "constant", "up": 60.0, "down": 120.0, "latency": 0.5}}
    codec = [{"kind": "top_k", "k": 10}]
    seconds = [
        run(fleet=slow, **part).rounds["virtual_seconds"].iloc[1] for part in ({}, {"wire": codec})
    ]
    cast = run(fleet=slow, broadcast=["cast"]).rounds["virtual_seconds"].iloc[1]
    assert_allclose(seconds, [4 + 1 + 840 / 60 + 840 / 120, 4 + 1 + 50 / 60 + 840 / 120])
    assert_allclose(cast, 4 + 1 + 840 / 60 + 420 / 120)


def test_partial_work_matches_plain_numpy():
    """Slow clients send the steps that fit into the deadline, or nothing.

    Partial participation, two clients without samples, half a server step.
    """
    rounds, deadline, planned, (H, a) = (
        [[0, 3, 6], [1, 3, 4], [2, 4, 6], [0, 1, 5]],
        3.0,
        4,
        problem_arrays(),
    )
    result = quadratics(
        rounds=len(rounds),
        seeds=[3],
        cohort={"kind": "listed", "rounds": rounds},
        client={"lr": 0.1, "batch": "full", "steps": planned},
        server=["mean", {"kind": "sgd", "lr": 0.5}],
        fleet={
            "speed": {"kind": "lognormal", "sigma": 1.0},
            "deadline": deadline,
            "partial_work": True,
        },
    )
    step = np.exp(generator(3, Stream.SPEED).standard_normal(len(SIZES)))
    done = np.minimum(np.floor(deadline / step), planned).astype(int)
    assert {0, planned} < {*done.tolist()}  # some late, some in part, some in full
    x = np.full(D, 2.0)
    for ids in rounds:
        total, weight = np.zeros(D), 0
        for i in (i for i in ids if SIZES[i] and done[i]):
            y = x.copy()
            for _ in range(done[i]):
                y = y - 0.1 * H[i] @ (y - a[i])
            total, weight = total + SIZES[i] * (y - x), weight + SIZES[i]
        x = x + 0.5 * total / max(weight, 1)
    assert_allclose(result.model(), x, rtol=1e-12)


@pytest.mark.long
def test_wasted_work_adds_up():
    result = run(fleet=FLEETS["chain"], evaluate={"target": 0.7})
    rounds, clients = result.rounds, result.clients
    first = rounds[rounds["test_accuracy"] >= 0.7].iloc[0]
    assert (
        first["virtual_seconds"] > 0 and first["round"] == result.summary["rounds_to_target"].item()
    )
    assert first["virtual_seconds"] == result.summary["virtual_seconds_to_target"].item()
    assert rounds["clients_sampled"].sum() == clients["rounds_offered"].sum()
    assert clients["rounds_offered"].equals(
        clients[["rounds_joined", "rounds_late", "rounds_left"]].sum(axis=1)
    )
    assert rounds["bytes_up"].iloc[-1] == clients["bytes_up"].sum()
    assert rounds["bytes_down"].iloc[-1] == clients["bytes_down"].sum()
    model = rounds["bytes_down"].iloc[1] / 4
    useful = 2 * model * clients["rounds_joined"].sum()
    assert (
        useful + rounds["bytes_wasted"].sum() == rounds[["bytes_up", "bytes_down"]].iloc[-1].sum()
    )


@pytest.mark.long
@pytest.mark.parametrize("name", FLEETS)
def test_an_interrupted_run_resumes_with_the_same_bytes(name, tmp_path):
    setting = {**TINY, "fleet": FLEETS[name], "method": "scaffold", "checkpoint": {"rounds": 1}}
    fedsim.run(setting, out=tmp_path / "whole")
    fedsim.run({**setting, "rounds": 3}, out=tmp_path / "left")
    fedsim.run(setting, out=tmp_path / "left", resume=True)
    for table in ("rounds.csv", "clients.csv", "summary.csv"):
        assert (tmp_path / "left" / table).read_bytes() == (tmp_path / "whole" / table).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("name", ["deadline", "chain"])
def test_methods_are_compared_under_the_same_outcomes(name):
    """Methods of equal cost have the same clients, stragglers and lost messages."""
    columns = [
        "clients_sampled",
        "clients_reported",
        "clients_late",
        "clients_left",
        "virtual_seconds",
    ]
    tables = [
        run(fleet=FLEETS[name], method=method).rounds[columns]
        for method in ("fedavg", "fedprox", "fedavgm")
    ]
    assert all(tables[0].equals(table) for table in tables[1:])
    layouts = [
        run(fleet=FLEETS[name], numerics=numerics).rounds
        for numerics in ({}, {"block": 2, "lanes": 2})
    ]
    assert layouts[0].equals(layouts[1])


REFUSED = {
    "no deadline": (
        {"partial_work": True}, "fleet.partial_work: nobody is late without a deadline",
    ),
    "more than all": (
        {"dropout": {"before": 0.6, "after": 0.6}}, "fleet.dropout: before, during and after",
    ),
    "low and high": (
        {"availability": {"kind": "diurnal", "low": 1.0}}, "fleet.availability: diurnal: high 0.9",
    ),
    "no kind": ({"speed": "fast"}, "fleet.speed: no speed 'fast'; known: classes, constant"),
    "never": (
        {"availability": {"kind": "markov", "leave": 0.0, "come": 0.0}},
        "fleet.availability: markov: come and leave",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_make_no_sense_are_refused(name):
    fleet, text = REFUSED[name]
    with pytest.raises(ScenarioError) as error:
        run(fleet=fleet)
    assert text in str(error.value)


def test_over_selection_is_refused_for_a_cohort_without_a_size():
    with pytest.raises(ScenarioError, match=r"fleet.over_select: all has no size"):
        run(cohort="all", fleet={"over_select": 2.0})
