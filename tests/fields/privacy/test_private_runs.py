"""Private runs: what they add, what they leave as it is, and that every round spends ε once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cohorts import cohort_of, context_of
from numpy.testing import assert_allclose, assert_array_equal
from reference.scenarios import consecutive, flat
from scipy import stats
from test_dp_sgd import SCENARIO as SOFTMAX
from test_dp_sgd import SIZES, gradients, samples

import fedsim
from fedsim.errors import CheckpointError, ScenarioError
from fedsim.fields.privacy.mark import mark
from fedsim.fields.privacy.mechanisms import gaussian
from fedsim.fields.privacy.private_mean import Bound, private_mean
from fedsim.types import Context

SCENARIO = {
    "name": "private",
    "rounds": 4,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 20},
    "cohort": {"kind": "poisson", "rate": 0.3},
    "privacy": {"clip": 0.2, "noise_multiplier": 1.0, "delta": 1e-5},
}
MEAN = {"kind": "mean", "weights": "uniform", "denominator": "expected"}


def run(**changes) -> fedsim.Result:
    return fedsim.run({**SCENARIO, **changes})


def privacy(**changes) -> dict:
    return {**SCENARIO["privacy"], **changes}


def moved(result: fedsim.Result) -> np.ndarray:
    return flat(result.model()) - flat(result.experiment.shared[0]["params"])


def rows_of(result: fedsim.Result, *without: str) -> list[dict]:
    return [
        {name: value for name, value in row.items() if name not in without}
        for row in result.records["rounds"]
    ]


@pytest.fixture(scope="module")
def private() -> fedsim.Result:
    return run()


@pytest.fixture(scope="module")
def plain() -> fedsim.Result:
    return run(privacy=None, server=[MEAN])


@pytest.mark.long
def test_without_noise_and_bound_it_is_the_mean_bit_for_bit(plain):
    silent = run(privacy=privacy(clip=1e30, noise_multiplier=0.0))
    assert rows_of(silent, "epsilon", "privacy/clip") == rows_of(plain)
    assert_array_equal(flat(silent.model()), flat(plain.model()))
    assert silent.rounds["epsilon"].tolist() == [0.0] + [np.inf] * 4


@pytest.mark.long
def test_every_round_spends_what_the_accountant_says_and_no_other_stream_moves(private, plain):
    """The first round trains the same clients from the same model on the same batches."""
    section, cohort = SCENARIO["privacy"], SCENARIO["cohort"]
    wanted = fedsim.epsilon(section, cohort, clients=20, rounds=[0, 1, 2, 3, 4])
    assert private.rounds["epsilon"].tolist() == wanted
    assert_allclose(private.rounds["privacy/clip"].iloc[1:], 0.2)
    noisy, plain = rows_of(private, "epsilon", "privacy/clip"), rows_of(plain)
    assert noisy[0] == plain[0]
    assert noisy[1]["train_loss"] == plain[1]["train_loss"]
    assert noisy[1]["test_loss"] != plain[1]["test_loss"]
    names = ("clients_sampled", "bytes_up", "virtual_seconds")
    assert [[row[n] for n in names] for row in noisy] == [[row[n] for n in names] for row in plain]


@pytest.mark.long
def test_clients_that_stay_where_they_are_or_leave_move_the_model_by_noise_alone():
    """In five rounds by N(0, 5 (zC/m)²) in every coordinate: m = 6, C = 0.2, z = 3.

    Whoever is missing, the sum is divided by those expected to be drawn, and ε is spent.
    """
    section = privacy(noise_multiplier=3.0)
    sections = {"client": {"lr": 0.0}, "model": "mlp", "fleet": {"dropout": 0.5}}
    result = run(rounds=5, privacy=section, **sections)
    assert result.rounds["clients_left"].sum() > 0
    wanted = fedsim.epsilon(section, SCENARIO["cohort"], clients=20, rounds=5)
    assert result.rounds["epsilon"].iloc[-1] == wanted
    drawn = moved(result) / (5**0.5 * 3 * 0.2 / 6)
    assert len(drawn) > 1900
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert_allclose(drawn.std(), 1, atol=4 / np.sqrt(2 * len(drawn)))


@pytest.mark.long
def test_a_round_in_which_nobody_comes_spends_and_adds_noise():
    result = run(cohort={"kind": "poisson", "rate": 0.001}, rounds=2)
    assert result.status == "done"
    assert result.rounds["clients_sampled"].sum() == 0
    assert result.rounds["skipped"].sum() == 0
    epsilons = result.rounds["epsilon"].to_numpy()
    assert 0 == epsilons[0] < epsilons[1] < epsilons[2]
    assert result.rounds["test_loss"].nunique() == 3


def context(number: int = 0) -> Context:
    """A round of three clients, of whom four are expected."""
    return context_of(3, key=jax.random.key(number), expected=jnp.float32(4), state=())


def test_the_bound_follows_the_noised_count_by_hand():
    """Of lengths 1, 5, 2 and a bound of 2, two of three are within: b̄ = ½ + (½ + N)/4."""
    rule = private_mean(Bound(2.0, quantile=0.25, lr=0.5, count_std=1e-9), 0.0, gaussian())

    @jax.jit
    def played():
        stack = cohort_of(np.float32([[1, 0], [3, 4], [0, 2]]))
        return rule.apply(stack, rule.init(jnp.zeros(2), None), context())

    aggregate, after, info = played()
    assert_allclose(aggregate, [(1 + 1.2) / 4, (1.6 + 2) / 4], rtol=1e-6)
    assert_allclose(after.clip, 2 * np.exp(-0.5 * (0.5 + 0.5 / 4 - 0.25)), rtol=1e-6)
    assert info["clip"] == 2


def test_an_empty_round_has_the_noise_that_the_count_leaves_and_its_bound_follows_one_half():
    """z = 1 and σ_b = 1: z_Δ = (1 − 1/4)^(−½), on the sum of 4 expected clients with C = 2."""
    rule = private_mean(Bound(2.0, quantile=0.25, lr=0.5, count_std=1.0), 1.0, gaussian())

    @jax.jit
    @jax.vmap
    def played(number):
        stack = cohort_of(np.full((3, 40), 9, np.float32), jnp.zeros(3, bool))
        aggregate, after, _ = rule.apply(stack, rule.init(jnp.zeros(40), None), context(number))
        return aggregate, after.clip

    drawn, clip = map(np.asarray, played(np.arange(500)))
    assert_allclose(drawn.std(), 0.75**-0.5 * 2 / 4, rtol=0.03)
    within = 0.25 - np.log(clip / 2) / 0.5  # ½ + N(0, 1)/4
    assert_allclose(within.mean(), 0.5, atol=4 * 0.25 / np.sqrt(500))
    assert_allclose(within.std(), 0.25, rtol=0.15)


@pytest.mark.long
def test_an_epsilon_is_reached_in_the_planned_rounds_and_no_others(tmp_path):
    """The resolved scenario has the noise, the method and the mean made of its rule."""
    target = {"clip": 0.2, "epsilon": 3.0, "delta": 1e-5}
    written = {**SCENARIO, "privacy": target, "method": "fedavg"}
    result = fedsim.run(written, out=tmp_path)
    assert 2.9999 < result.rounds["epsilon"].iloc[-1] <= 3
    resolved = result.scenario
    assert resolved["server"] == [MEAN]
    assert resolved["privacy"]["noise_multiplier"] == fedsim.noise_multiplier(
        target, SCENARIO["cohort"], clients=20, rounds=4
    )
    assert rows_of(fedsim.run(resolved)) == rows_of(result)
    with pytest.raises(CheckpointError, match="the noise was solved for all rounds"):
        fedsim.run({**written, "rounds": 6}, out=tmp_path, resume=True)


LOCAL = {"kind": "local_gaussian", "norm": 1.0, "epsilon": 1.0, "delta": 1e-5}
REFUSED = {
    "no delta": (
        {"privacy": {"clip": 0.2, "noise_multiplier": 1.0}},
        "privacy.delta: is missing; write delta:",
    ),
    "a denominator of who came": (
        {"server": [{"kind": "mean", "denominator": "actual"}]},
        "server[0].denominator: is actual",
    ),
    "losses beside local noise": (
        {"privacy": None, "wire": [LOCAL], "method": "qfedavg"},
        "wire[0]: local_gaussian noises the update alone, and clients send q_fair their loss",
    ),
    "the classic noise above epsilon 1": (
        {"privacy": None, "wire": [{**LOCAL, "epsilon": 3.0, "calibration": "classic"}]},
        "wire[0]: local_gaussian: classic holds up to epsilon 1, and epsilon is 3",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_epsilon_does_not_cover_is_refused_with_its_remedy(case):
    """Which sections are refused or accepted beside `privacy` is in tests/fits."""
    changes, text = REFUSED[case]
    with pytest.raises(ScenarioError) as error:
        run(**changes)
    assert text in str(error.value)


# --------------------------------------------------------------------------------- in plain NumPy

CLIP = 0.3
SETTING = {
    "cohort": {"kind": "poisson", "rate": 0.5},
    "client": {"lr": 0.5, "batch": "full", "steps": 2},
    "server": ["mean", {"kind": "sgd", "lr": 0.5}],
    "privacy": {"clip": CLIP, "noise_multiplier": 0.4, "delta": 1e-5},
}
OWN = [slice(start, start + n) for start, n in zip(np.cumsum([0, *SIZES]), SIZES, strict=False)]


def update(model: np.ndarray, rows: slice) -> np.ndarray:
    """Two full steps of softmax regression on a client's samples, shortened to the bound."""
    data = samples()
    y = model
    for _ in range(2):
        g = gradients(y[:12].reshape(4, 3), y[12:], data.x[rows], data.y[rows])
        y = y - 0.5 * g.mean(axis=0)
    length = np.linalg.norm(y - model)
    return (y - model) * min(1, CLIP / length)


def played(setting: dict) -> tuple[list[np.ndarray], fedsim.Result]:
    """A run -> the models at its start and after every round, and its result."""
    models = []
    result = fedsim.run(
        {**SOFTMAX, **setting},
        data=samples(),
        partition=consecutive(SIZES),
        watch=lambda experiment, seed, row: models.append(flat(row.server.shared["params"])),
    )
    return models, result


@pytest.mark.long
def test_half_a_step_along_the_noised_mean_over_those_expected():
    """The noise of a round is what clients that stay where they are move the model by."""
    standing = {**SETTING, "client": {**SETTING["client"], "lr": 0.0}}
    noise = np.diff(played(standing)[0], axis=0)
    assert (np.abs(noise).max(axis=1) > 0).all()

    models, result = played(SETTING)
    plan = result.experiment.plans[0]
    model = models[0]
    came = []
    for r in range(1, SOFTMAX["rounds"] + 1):
        ids = plan.round(r)[0].ids.tolist()
        came.append(len(ids))
        updates = [update(model, OWN[i]) for i in ids]
        model = model + 0.5 * sum(updates, np.zeros(15)) / 1.5 + noise[r - 1]
        assert_allclose(models[r], model, rtol=1e-10)
    assert len(set(came)) > 1


@pytest.mark.parametrize(
    ("columns", "sections", "unit"),
    [
        (["epsilon"], {}, "one client."),
        ([], {"client": {"dp_sgd": {"clip": 1}}}, "one sample of one client."),
        ([], {"wire": [{"kind": "local_laplace"}]}, "what one client sends in a round."),
    ],
)
def test_whatever_is_private_is_marked(columns, sections, unit):
    scenario = {"client": {}, "numerics": {"dtype": "float32"}}
    assert mark(columns, {**scenario, **sections}).endswith(f"Neighbouring data differ in {unit}")
    assert mark([], scenario) == ""
