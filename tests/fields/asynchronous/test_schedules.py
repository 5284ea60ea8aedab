"""Schedules with messages at any time against plain NumPy: mixing, windows, clients that leave."""

import itertools
from collections import Counter

import by_hand
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import oracle, own_kinds_of
from federations import quadratic, trajectory
from test_codecs import SIZES, problem_arrays, quadratics
from test_flights import played

import fedsim
from fedsim.fields.asynchronous import rounds
from fedsim.fields.asynchronous.timetables import fedasync, fedbuff, staleness_factor
from fedsim.fleet import Timetable
from fedsim.fleet.selection import uniform
from fedsim.types import Model

N, D = 6, 3
TIMES = [1, 2, 3, 5, 8, 2]
SIMULATED = {case["name"]: case for case in oracle("systems") if case["fn"] == "async_sim"}


def problem(seed=0, sizes=(3, 1, 4, 2, 2, 5)) -> dict:
    """f_i = ½ (x − a_i)ᵀ H_i (x − a_i)."""
    rng = np.random.default_rng(seed)
    H = np.stack([np.eye(D) * rng.uniform(0.5, 2) for _ in sizes])
    return {
        "sizes": list(sizes),
        "H": H,
        "a": rng.normal(size=(len(sizes), D)),
        "x0": rng.normal(size=D),
    }


def trained(inputs: dict, i: int, x: np.ndarray, steps: int, lr: float = 0.1) -> np.ndarray:
    for _ in range(steps):
        x = x - lr * inputs["H"][i] @ (x - inputs["a"][i])
    return x


def scenario(schedule: dict | str, **sections) -> dict:
    client = {"lr": 0.1, "batch": "full", "steps": TIMES}
    cohort = {"kind": "listed", "rounds": [list(range(N))]}
    plain = {
        "name": "s",
        "rounds": 5,
        "cohort": cohort,
        "client": client,
        "numerics": {"dtype": "float64"},
    }
    return {**plain, "schedule": schedule, **sections}


def models_of(log, inputs, step) -> list:
    """The models of a server after the flights of the oracle.

    `step` is what it adds to its model, given the flights that end, the model that each of these
    started from, and the one that it comes back with.
    """
    versions = [inputs["x0"]]
    for flush in log:
        flights = flush["updates"]
        starts = [versions[u["version"]] for u in flights]
        ends = [
            trained(inputs, u["client"], start, TIMES[u["client"]])
            for u, start in zip(flights, starts, strict=True)
        ]
        versions.append(versions[-1] + step(versions[-1], flights, starts, ends))
    return versions[1:]


def test_mixing_matches_its_formula():
    """x ← (1 − α s(τ)) x + α s(τ) y with half a server step, on the oracle's flights."""
    inputs, log = problem(), SIMULATED["async_c2_b1"]["expected"]["log"]

    def step(model, flights, starts, ends):
        return 0.5 * 0.6 / (2.0 * flights[0]["staleness"] + 1) * (ends[0] - model)

    written = {"kind": "fedasync", "alpha": 0.6, "concurrency": 2}
    written |= {"staleness": "hinge", "slope": 2.0, "threshold": 0}
    server = [{"kind": "mean", "weights": "uniform"}, {"kind": "sgd", "lr": 0.5}]
    got, result = trajectory(scenario(written, server=server), **quadratic(inputs))
    np.testing.assert_allclose(got, models_of(log, inputs, step), rtol=1e-12)
    ages = [flush["updates"][0]["staleness"] for flush in log]
    assert result.rounds["staleness_max"].tolist()[1:] == ages
    assert result.rounds["staleness_mean"].tolist()[1:] == ages


@pytest.mark.long
@pytest.mark.parametrize("weights", ["uniform", "samples"])
@pytest.mark.parametrize("name", SIMULATED)
def test_fedbuff_matches_its_simulation(name, weights):
    """The flights are the oracle's; the server's steps are computed by hand.

    A step is the sum of scaled updates, whose weights do not depend on the scale.
    """
    case, inputs = SIMULATED[name], problem()
    p, log = case["params"], case["expected"]["log"]
    assert case["inputs"]["times"] == TIMES

    def step(model, flights, starts, ends):
        w = [1 if weights == "uniform" else inputs["sizes"][u["client"]] for u in flights]
        scales = [1 / np.sqrt(1 + u["staleness"]) for u in flights]
        return 0.7 * np.array(w) * scales @ np.subtract(ends, starts) / sum(w)

    schedule = {"kind": "fedbuff", "buffer": p["buffer"], "concurrency": p["concurrency"]}
    server = [{"kind": "mean", "weights": weights}, {"kind": "sgd", "lr": 0.7}]
    got, result = trajectory(scenario(schedule, server=server), **quadratic(inputs))
    np.testing.assert_allclose(got, models_of(log, inputs, step), rtol=1e-12)
    rounds = result.rounds[1:]
    assert rounds["virtual_seconds"].tolist() == [flush["time"] for flush in log]
    ages = [[u["staleness"] for u in flush["updates"]] for flush in log]
    assert rounds["staleness_max"].tolist() == list(map(max, ages))
    assert rounds["staleness_mean"].tolist() == pytest.approx(list(map(np.mean, ages)))
    joined = np.bincount([u["client"] for flush in log for u in flush["updates"]], minlength=N)
    assert result.clients["rounds_joined"].tolist() == joined.tolist()


def test_staleness_factors_match_the_paper():
    ages = np.arange(12)
    assert staleness_factor("polynomial", 0.5, 1.0, 0)(ages) == pytest.approx(1 / np.sqrt(1 + ages))
    paper = [1 if age <= 4 else 1 / (10 * (age - 4) + 1) for age in ages]
    assert staleness_factor("hinge", 1.0, 10.0, 4)(ages) == pytest.approx(paper)
    hinge = fedbuff(staleness="hinge").discount
    assert hinge is not None and hinge(ages) == pytest.approx(paper)
    mixing = fedasync(alpha=0.3, staleness="constant").mixing
    assert mixing is not None and mixing(ages) == pytest.approx(np.full(12, 0.3))


# ---------------------------------------------------------------------------------- windows of time

STEPS = [1, 3, 1, 5, 2, 1, 7]
ORDER = [3, 6, 1, 2, 0, 4]  # clients 2 and 5 have no samples, and take no time


def windows(seconds: float, concurrency: int, rounds: int) -> list[list[tuple[int, int]]]:
    """(client, version of its model) of what arrives in each window."""
    times = [steps if size else 0 for steps, size in zip(STEPS, SIZES, strict=True)]
    queue, flights, log = itertools.cycle(ORDER), [], []
    for r in range(rounds):
        while len(flights) < concurrency:
            client = next(queue)
            flights.append((client, r, r * seconds + times[client]))
        log.append([flight[:2] for flight in flights if flight[2] <= (r + 1) * seconds])
        flights = [flight for flight in flights if flight[2] > (r + 1) * seconds]
    return log


@pytest.mark.long
def test_windows_match_plain_numpy():
    """Late clients, clients without samples, empty windows, half a server step."""
    log, (H, a), versions = windows(2.0, 2, 12), problem_arrays(), [np.full(4, 2.0)]
    assert {len(arrived) for arrived in log} == {0, 1, 2}
    for r, arrived in enumerate(log):
        total, weight = np.zeros(4), 0
        for i, version in arrived:
            y = versions[version]
            for _ in range(STEPS[i] if SIZES[i] else 0):
                y = y - 0.1 * H[i] @ (y - a[i])
            s = 1 / (2.0 * (r - version - 1) + 1) if r - version > 1 else 1.0
            total, weight = total + SIZES[i] * s * (y - versions[version]), weight + SIZES[i]
        versions.append(versions[-1] + 0.5 * total / max(weight, 1))
    schedule = {"kind": "semi_sync", "seconds": 2.0, "concurrency": 2}
    schedule |= {"staleness": "hinge", "slope": 2.0, "threshold": 1}
    result = quadratics(
        rounds=12,
        schedule=schedule,
        cohort={"kind": "listed", "rounds": [ORDER]},
        client={"lr": 0.1, "batch": "full", "steps": STEPS},
        server=["mean", {"kind": "sgd", "lr": 0.5}],
    )
    np.testing.assert_allclose(result.model(), versions[-1], rtol=1e-12)
    rounds = result.rounds[1:]
    assert rounds["virtual_seconds"].tolist() == [2.0 * r for r in range(1, 13)]
    assert rounds["clients_sampled"].tolist() == [len(arrived) for arrived in log]
    ages = [[r - version for _, version in arrived] for r, arrived in enumerate(log)]
    oldest = [max(of_window, default=np.nan) for of_window in ages]
    np.testing.assert_array_equal(rounds["staleness_max"], oldest)
    with_samples = [[r - v for i, v in arrived if SIZES[i]] for r, arrived in enumerate(log)]
    assert rounds["skipped"].tolist() == [int(not of_window) for of_window in with_samples]
    counts = Counter(itertools.chain(*with_samples))
    assert dict(result.staleness[["age", "messages"]].to_numpy()) == counts and len(counts) > 2


# --------------------------------------------------------- clients that cannot be reached, or leave


def test_a_client_that_leaves_frees_its_place():
    """As many are in flight after a step as allowed, and what those who left have done is told.

    Of forty clients, four in a round, who take half a second to two for each of three steps.
    """
    speed = own_kinds_of("speed")["uniform"](low=0.5, high=2.0)
    timetable = Timetable(buffer=3, concurrency=6, steps=rounds)
    fleet = {"speed": speed, "dropout": (0.1, 0.2, 0.1)}  # before, during, after the training
    plan = by_hand.plan_of(uniform(4), fleet, timetable, sizes=[20] * 40, steps=3, rounds=500)
    state, left = plan.begin(), 0
    for r in range(1, 61):
        work, state = plan.round(r, state)
        assert len(work.ids) == 3
        assert len(state["client"]) == 6 == len(set(state["client"].tolist()))
        if work.uncounted is None:
            continue
        o = work.uncounted
        assert o.left.all() and not o.late.any()
        assert not o.steps[~o.reached].any() and (o.steps[o.sent] == 3).all()
        assert (o.steps[o.reached & ~o.sent] < 3).all()
        left += len(o.left)
    assert left > 60


NOBODY = {
    "unreachable": {"availability": {"kind": "bernoulli", "rate": 0.0}},
    "before": {"dropout": {"before": 1.0, "during": 0.0, "after": 0.0}},
}


@pytest.mark.long
@pytest.mark.parametrize("why", NOBODY)
@pytest.mark.parametrize("kind", ["fedasync", "semi_sync"])
def test_steps_without_messages_are_skipped(kind, why):
    seconds = {"seconds": 3.0} if kind == "semi_sync" else {}
    result = fedsim.run(
        {
            "name": "nobody",
            "rounds": 3,
            "data": {"kind": "gaussian_blobs", "samples": 400, "clients": 20},
            "model": "logistic",
            "fleet": NOBODY[why],
            "schedule": {"kind": kind, "concurrency": 4, **seconds},
            "cohort": {"kind": "uniform", "size": 5},
            "client": {"lr": 0.1, "batch": 8, "steps": 4},
        }
    )
    assert result.status == "not_run" and len(result.staleness) == 0
    rounds = result.rounds
    assert rounds["skipped"].sum() == 3 and rounds["clients_reported"].sum() == 0
    assert rounds["staleness_max"].isna().all()
    step = 3 if kind == "semi_sync" else 4 if why == "unreachable" else 0  # seconds
    assert rounds["virtual_seconds"].tolist() == [0, step, 2 * step, 3 * step]


@pytest.mark.long
def test_normalisation_statistics_are_mixed_with_the_model():
    """After one message, α = 1/4 gives a quarter of the client's, which halve their way to x̄."""
    nothing = {"params": jnp.zeros(3), "stats": {"mean": jnp.zeros(3)}}

    def apply(variables, x, *, mask=None, key=None, train=False):
        mean = variables["stats"]["mean"]
        mean = 0.5 * mean + 0.5 * x.mean(0) if train else mean
        return (x - mean) @ variables["params"], {"mean": mean}

    x = np.random.default_rng(0).normal(2.0, 1.0, (6, 3))
    schedule = {"kind": "fedasync", "alpha": 0.25, "concurrency": 1}
    client = {"lr": 0.1, "batch": "full", "steps": 2}
    result = fedsim.run(
        scenario(schedule, rounds=1, cohort="all", client=client),
        data=fedsim.Arrays(x, np.ones(6), client=np.zeros(6, int)),
        model=Model(init=lambda key: nothing, apply=apply, mixes_rows=True),
    )
    mean = result.variables()["stats"]["mean"]
    np.testing.assert_allclose(mean, 0.25 * 0.75 * x.mean(0), rtol=1e-12)


# ---------------------------------------------------------------------- memories of single messages

FEEDBACK = [{"kind": "error_feedback", "codec": {"kind": "top_k", "k": 2}}]
WAITING = {
    "semi_sync": {"kind": "semi_sync", "seconds": 2.0, "concurrency": 5, "staleness": "constant"},
    "fedbuff": {
        "kind": "fedbuff",
        "buffer": 3,
        "concurrency": 5,
        "staleness": "constant",
        "restart": "flush",
    },
    "fedasync": {"kind": "fedasync", "alpha": 0.5, "concurrency": 3, "staleness": "constant"},
}


@pytest.mark.long
@pytest.mark.parametrize("kind", WAITING)
def test_errors_are_fed_back_where_nobody_sends_twice_between_two_steps(kind):
    """Everybody trains at all times.

    The plan says whose message arrives, and from which model.
    """
    (H, a), versions, errors = problem_arrays(), [np.full(4, 2.0)], np.zeros((len(SIZES), 4))
    rounds = 8
    result = quadratics(
        rounds=rounds,
        schedule=WAITING[kind],
        cohort="all",
        client={"lr": 0.1, "batch": "full", "steps": STEPS},
        wire=FEEDBACK,
        server=[{"kind": "mean", "weights": "uniform"}],
    )
    works = played(result.experiment.plans[0], rounds)
    for work in works:
        assert len(set(work.ids.tolist())) == len(work.ids)
        arrived = []
        for i, version in zip(work.ids, work.start, strict=True):
            y = versions[version]
            for _ in range(STEPS[i]):
                y = y - 0.1 * H[i] @ (y - a[i])
            whole = y - versions[version] + errors[i]
            largest = np.argsort(-np.abs(whole), kind="stable")[:2]
            sent = np.zeros(4)
            sent[largest] = whole[largest]
            errors[i] = whole - sent
            mixed = 0.5 * (versions[version] + sent - versions[-1])
            arrived.append(mixed if kind == "fedasync" else sent)
        versions.append(versions[-1] + (np.mean(arrived, axis=0) if arrived else 0.0))
    np.testing.assert_allclose(result.model(), versions[-1], rtol=1e-12)
    memory = result.state()["client"]["error_feedback"]["error"]
    np.testing.assert_allclose(memory, errors, rtol=1e-9, atol=1e-12)
    most = {"semi_sync": 4, "fedbuff": 3, "fedasync": 1}[kind]
    assert max(len(work.ids) for work in works) == most
