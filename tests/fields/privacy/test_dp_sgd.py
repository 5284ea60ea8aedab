"""DP-SGD of clients: clipped gradients of samples by hand, their noise, ε, and what is refused."""

import numpy as np
import pytest
from building import built, foretold
from numpy.testing import assert_allclose
from reference.scenarios import consecutive, flat
from scipy import stats
from unchanged import run_of_same_bytes

import fedsim
from fedsim.errors import ScenarioError
from fedsim.fields.privacy.noise_notes import noise_notes

SIZES = (5, 0, 9, 1)
PRIVATE = {"clip": 1.5, "noise_multiplier": 0.0, "cap": 3, "microbatch": 2}
SCENARIO = {
    "name": "dp_sgd",
    "rounds": 4,
    "data": {"clients": 4, "test": 0.0},
    "model": "logistic",
    "cohort": {"kind": "uniform", "size": 2},
    "client": {"lr": 0.5, "batch": 2, "steps": 3, "dp_sgd": PRIVATE},
    "server": [{"kind": "mean", "weights": "uniform"}, {"kind": "sgd", "lr": 0.5}],
    "numerics": {"dtype": "float64"},
}


def samples() -> fedsim.Arrays:
    rng = np.random.default_rng(0)
    n = sum(SIZES)
    return fedsim.Arrays(rng.normal(size=(n, 4)), np.arange(n) % 3)


def client(**changes) -> dict:
    return {**SCENARIO["client"], **changes}


def dp_sgd(**changes) -> dict:
    return client(dp_sgd={**PRIVATE, **changes})


def run(**changes) -> fedsim.Result:
    return fedsim.run({**SCENARIO, **changes}, data=samples(), partition=consecutive(SIZES))


def gradients(weights, bias, x, y):
    """Of the cross-entropy of softmax regression, one row for every sample, W before b."""
    outputs = x @ weights + bias
    chances = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    off = chances - np.eye(3)[y]
    return np.concatenate([(x[:, :, None] * off[:, None]).reshape(len(x), 12), off], axis=1)


def check(result, clip: float | None, expected_size: bool) -> None:
    """A run ends at the W and b of plain NumPy, on the batches of its plan."""
    data = samples()
    plan = result.experiment.plans[0]
    model = flat(result.experiment.shared[0]["params"])
    for r in range(1, 5):
        updates = []
        for who in plan.round(r)[0].ids.tolist():
            y = model.copy()
            for index, valid in zip(*plan.work.batches(r, who), strict=True):
                rows = index[:valid]
                g = gradients(y[:12].reshape(4, 3), y[12:], data.x[rows], data.y[rows])
                if clip is not None:
                    lengths = np.sqrt((g**2).sum(axis=1, keepdims=True))
                    g = g * np.minimum(1, clip / lengths)
                size = min(2, SIZES[who]) if expected_size else max(valid, 1)
                y = y - 0.5 * g.sum(axis=0) / size
            updates.append(y - model)
        model = model + 0.5 * np.mean(updates, axis=0)
    assert_allclose(flat(result.model()), model, rtol=1e-12)


def test_clipped_gradients_over_the_expected_size_by_hand():
    """Clients without samples, empty batches, cut batches, and half a step of the server.

    Without noise, whoever takes a step spends everything.
    """
    result = run()
    check(result, clip=1.5, expected_size=True)
    assert result.clients["epsilon"].tolist() == [np.inf, 0, np.inf, np.inf]
    plan = result.experiment.plans[0]
    sizes = np.concatenate([plan.work.batches(r, 2)[1] for r in range(1, 30)])
    assert {0, 3} <= set(sizes.tolist()) and sizes.max() == 3
    at_start = gradients(np.zeros((4, 3)), np.zeros(3), samples().x, samples().y)
    lengths = np.linalg.norm(at_start, axis=1)
    assert lengths.min() < 1.5 < lengths.max()


@pytest.mark.long
def test_plain_steps_on_the_same_batches_are_those_of_the_mean_gradient():
    """Without a bound and noise, both are SGD, over the size that is expected or that came.

    All gradients of a batch are held at a time.
    """
    plain = run(client={"lr": 0.5, "batch": 2, "steps": 3, "shuffle": "poisson"})
    check(plain, clip=None, expected_size=False)
    unbounded = run(client=dp_sgd(clip=1e30, cap=None, microbatch=None))
    check(unbounded, clip=None, expected_size=True)
    assert rows_drawn(plain) == rows_drawn(unbounded)


def rows_drawn(result) -> list:
    plan = result.experiment.plans[0]
    return [plan.work.batches(r, who)[0].tolist() for r in (1, 2, 3) for who in (0, 2, 3)]


@pytest.mark.long
def test_noise_has_the_deviation_and_the_form_that_it_should_empty_batches_too():
    """Two clients, four steps each: W moves by N(0, 4 (lr z C / b)² / 2), in every coordinate."""
    scenario = {
        "name": "noise",
        "rounds": 1,
        "data": {"clients": 2, "test": 0.0},
        "model": "logistic",
        "client": {"lr": 0.3, "batch": 1, "steps": 4},
    }
    scenario["client"]["dp_sgd"] = {"clip": 0.5, "noise_multiplier": 3.0}
    only_the_bias_can_learn = fedsim.Arrays(np.zeros((60, 4000)), np.arange(60) % 5)
    result = fedsim.run(scenario, data=only_the_bias_can_learn)
    plan = result.experiment.plans[0]
    assert 0 in np.concatenate([plan.work.batches(1, who)[1] for who in (0, 1)])
    moved = result.model()["W"] - result.experiment.shared[0]["params"]["W"]
    drawn = np.ravel(moved) / (2 * 0.3 * 3.0 * 0.5 / np.sqrt(2))
    assert_allclose(drawn.std(), 1, atol=4 / np.sqrt(2 * len(drawn)))
    assert stats.kstest(drawn, "norm").pvalue > 1e-3


@pytest.mark.long
def test_epsilon_of_every_client_is_that_of_its_steps():
    dp = pytest.importorskip("dp_accounting")
    fleet = {"dropout": {"during": 0.2, "after": 0.2}}
    result = run(client=dp_sgd(noise_multiplier=1.5, delta=1e-3), fleet=fleet, rounds=6)
    table = result.clients
    steps = np.zeros(4, int)
    plan = result.experiment.plans[0]
    for r in range(1, 7):
        work = plan.round(r)[0]
        np.add.at(steps, work.ids, work.steps)
        if work.uncounted is not None:
            sent = work.uncounted.sent
            np.add.at(steps, work.uncounted.ids[sent], work.uncounted.steps[sent])
    for n, taken, epsilon in zip(SIZES, steps.tolist(), table["epsilon"], strict=True):
        if not taken:
            assert epsilon == 0
            continue
        event = dp.TruncatedSubsampledGaussianDpEvent(n, min(2 / n, 1), 3, 1.5)
        accountant = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
        accountant.compose(event, taken)
        assert_allclose(epsilon, accountant.get_epsilon(1e-3), rtol=1e-3)
    assert (steps[[0, 2, 3]] > 0).any() and steps[1] == 0


SMALL = {
    "name": "small",
    "rounds": 4,
    "data": {"kind": "gaussian_blobs", "samples": 240, "clients": 12},
    "cohort": {"kind": "poisson", "rate": 0.5},
    "client": {"lr": 0.2, "batch": 4, "epochs": 1},
}
SMALL["client"]["dp_sgd"] = {"clip": 0.5, "noise_multiplier": 1.0}


@pytest.mark.optimised
@pytest.mark.long
def test_kills_and_blocks_change_no_byte_and_a_round_spends_once(tmp_path):
    run_of_same_bytes(SMALL, tmp_path, cut=2)


def test_hardly_any_noise_is_refused():
    written = {**SMALL, "client": {"dp_sgd": {"clip": 1.0, "noise_multiplier": 1e-6}}}
    with pytest.raises(ScenarioError, match=r"client.dp_sgd.noise_multiplier: expected 0, or a"):
        built(written)


def small(keys: dict) -> dict:
    return {**SMALL["client"], "dp_sgd": keys}


def notes(**changes) -> list[str]:
    return noise_notes(built({**SMALL, **changes}))


@pytest.mark.long
def test_an_epsilon_has_the_least_noise_under_which_no_sample_spends_more():
    """Under clients of unequal sizes, who all take part in all rounds.

    That is foretold, and the resolved scenario has it and reads back as itself.
    """
    skewed = {**SMALL["data"], "partition": {"kind": "quantity", "distribution": "lognormal"}}
    learning = small({"clip": 1.0, "epsilon": 3.0})
    case = {**SMALL, "data": skewed, "cohort": "all", "client": learning}
    result = fedsim.run(case)
    solved = result.scenario["client"]["dp_sgd"]
    spent = result.clients["epsilon"].max()
    assert 0.99 * 3.0 < spent <= 3.0 == solved["epsilon"]
    assert spent == foretold(case)["samples_epsilon"]["epsilon"]
    assert result.scenario["client"]["shuffle"] == "poisson"
    assert built(result.scenario).scenario.resolved() == result.scenario

    less = {**solved, "epsilon": None, "noise_multiplier": solved["noise_multiplier"] * 0.999}
    more = foretold({**case, "client": small(less)})["samples_epsilon"]
    assert more["epsilon"] > 3.0


def test_noise_that_drowns_everything_is_said():
    """That of samples, and that of clients; and what is plain is not."""
    (line,) = notes(client=small({"clip": 1.0, "noise_multiplier": 100.0}))
    assert line.startswith("client.dp_sgd: over the run, noise takes the model about ")
    few = {"clip": 1.0, "epsilon": 0.2, "delta": 1e-5}
    server = [{"kind": "mean", "weights": "uniform", "denominator": "expected"}]
    (line,) = notes(privacy=few, cohort="all", server=server)
    assert line.startswith("privacy: over the run, noise takes the model about ")
    assert notes(client=small({"clip": 1.0, "noise_multiplier": 1.0})) == []
