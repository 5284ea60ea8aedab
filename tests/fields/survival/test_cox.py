"""Cox losses are partial likelihoods, and end at the coefficients of lifelines 0.30.3."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import own_kinds_of
from rossi import FEATURES, OWNERS, SCALE, X, Y, scenario

import fedsim
from fedsim.types import Loss

# CoxPHFitter().fit(rossi, "week", "arrest"), and the same with strata=["client"].
# lifelines is not among the test tools: it needs an older pandas than fedsim.
EFRON = [
    -0.3794221657180835, -0.05743774002920776, 0.3138997872674409, -0.14979570182124166,
    -0.43370388118524955, -0.0848710806345732, 0.09149708173533616,
]  # fmt: skip
LOG_LIKELIHOOD = -658.7476594460858
STRATIFIED = [
    -0.3584620736296927, -0.056499790600257165, 0.332506998762284, -0.13596284410568374,
    -0.45303622281399203, -0.08720321867524299, 0.09223977878015865,
]  # fmt: skip


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def made(kind, **keys) -> Loss:
    loss = own_kinds_of("loss")[kind](**keys)
    assert isinstance(loss, Loss)
    return loss


def run(loss, owners, rounds=2, y=Y, x=X, **sections):
    data = fedsim.Arrays(x=x, y=y, client=owners)
    return fedsim.run(scenario(loss, rounds, **sections), data=data)


def drawn(seed, n=60, times=12, share=0.6):
    """Times and events, and outputs, both with ties."""
    rng = np.random.default_rng(seed)
    time = rng.integers(1, times + 1, n).astype(float)
    event = (rng.random(n) < share).astype(float)
    outputs = np.round(rng.normal(size=n) * 2) / 2
    return np.stack([time, event], axis=1), outputs


def of_pairs(y, outputs, ties):
    """The negative logarithm of the partial likelihood, term by term as the papers write it."""
    total = 0.0
    for time in np.unique(y[y[:, 1] == 1, 0]):
        hazards = np.exp(outputs)
        at_risk = hazards[y[:, 0] >= time].sum()
        tied = (y[:, 0] == time) & (y[:, 1] == 1)
        for position in range(tied.sum()):
            left = position / tied.sum() if ties == "efron" else 0.0
            total += np.log(at_risk - left * hazards[tied].sum())
        total -= outputs[tied].sum()
    return total


@functools.cache
def total_of(ties):
    """(outputs, y) -> the sum of the losses, and its gradient by the outputs."""
    loss = made("cox", ties=ties)
    return jax.jit(jax.value_and_grad(lambda outputs, y: loss(outputs, y).sum()))


def test_the_published_coefficients_have_the_published_likelihood_and_no_gradient():
    value, by_output = total_of("efron")(FEATURES @ EFRON, Y.astype(float))
    assert value == pytest.approx(-LOG_LIKELIHOOD, rel=1e-12)
    np.testing.assert_allclose(FEATURES.T @ by_output, 0, atol=1e-5)
    c_index = fedsim.measure("c_index", Y, FEATURES @ EFRON)
    assert c_index == pytest.approx(0.6403292470997135, abs=1e-12)


@pytest.mark.long
def test_full_batches_end_at_the_published_coefficients():
    """Of one client; and of several: a model that is stratified by client."""
    several = run("cox", OWNERS, rounds=150).model()["W"][:, 0] / SCALE
    np.testing.assert_allclose(several, STRATIFIED, atol=1e-9)
    result = run("cox", np.zeros(len(Y), int), rounds=150)
    found = result.model()["W"][:, 0] / SCALE
    np.testing.assert_allclose(found, EFRON, atol=1e-9)
    assert found[0] == pytest.approx(-0.37942, abs=5e-6)
    clients = result.clients.iloc[0]
    assert clients["global_loss"] * len(Y) == pytest.approx(-LOG_LIKELIHOOD, rel=1e-12)
    assert clients["global_c_index"] == pytest.approx(0.6403292470997135, abs=1e-12)


@pytest.mark.parametrize("ties", ("efron", pytest.param("breslow", marks=pytest.mark.long)))
def test_the_loss_is_the_partial_likelihood_of_the_batch_without_its_filling(ties):
    y, outputs = drawn(0)
    expected = of_pairs(y, outputs, ties)
    of_set = made("cox", ties=ties).of_set
    assert of_set is not None
    assert of_set(outputs[:, None], y) * len(y) == pytest.approx(expected)

    n = len(Y) - len(y)  # as many rows as in the study: one program
    filled_y = np.concatenate([y[:20], np.zeros((n, 2)), y[20:]])
    filled_outputs = np.concatenate([outputs[:20], np.full(n, 50.0), outputs[20:]])
    value, gradient = total_of(ties)(filled_outputs, filled_y)
    assert value == pytest.approx(expected)
    np.testing.assert_array_equal(gradient[20 : 20 + n], 0)
    assert np.isfinite(gradient).all()


@pytest.mark.long
def test_batches_with_filling_train_as_the_same_samples_do_alone():
    """Clients of 5 and 9 samples in batches of 9, and a reference of their own full batches."""
    y, _ = drawn(5, n=14)
    x = np.random.default_rng(1).normal(size=(14, 3))
    owners = np.repeat([0, 1], [5, 9])
    client = {"batch": 9, "lr": 0.5, "epochs": 1}
    result = run("cox", owners, 1, y, x, client=client, evaluate={"every": 1})
    loss = made("cox")

    def total(W):
        parts = [loss(jnp.asarray(x[owners == k]) @ W, jnp.asarray(y[owners == k])) for k in (0, 1)]
        return sum(part.sum() for part in parts) / 14

    start = result.experiment.shared[0]["params"]["W"]
    expected = start - 0.5 * jax.jit(jax.grad(total))(start)
    np.testing.assert_allclose(result.model()["W"], expected, atol=1e-12)


def test_discrete_time_is_the_likelihood_of_a_row_per_sample_and_interval():
    """Events at the end of an interval are in it; a sample is censored in one that it survives."""
    ends = [2.0, 5.0, 9.0]
    logits = np.random.default_rng(0).normal(size=(6, 4))
    y = np.array([[1, 1], [2, 1], [2, 0], [5.5, 1], [8, 0], [12, 1]])
    survived = [0, 0, 1, 2, 2, 3]  # intervals
    hazards = 1 / (1 + np.exp(-logits))
    expected = []
    for row, (count, event) in enumerate(zip(survived, y[:, 1], strict=True)):
        terms = -np.log(1 - hazards[row, :count]).sum()
        expected.append(terms - event * np.log(hazards[row, count]))
    loss = jax.jit(made("discrete_cox", bins=ends).of)
    found = loss(jnp.asarray(logits), jnp.asarray(y))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_intervals_end_at_quantiles_of_the_events_of_all_clients():
    loss = made("discrete_cox", bins=4)
    assert loss.fitted is not None
    y = np.array([[1, 1], [2, 1], [3, 1], [4, 1], [100, 0]])
    written = made("discrete_cox", bins=[1, 2, 3])
    assert loss.fitted(y) is loss.fitted(y[::-1])
    rows = jnp.array([[1, 1], [2.5, 0], [7, 1]])
    logits = jnp.tile(jnp.arange(4.0), (3, 1))
    found, expected = (jax.jit(each.of)(logits, rows) for each in (loss.fitted(y), written))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.long
def test_written_ends_of_intervals_need_no_look_at_times_and_are_private():
    """With dp_sgd a number of intervals is refused, and its ends are taken."""
    client = {"batch": 20, "lr": 0.1, "dp_sgd": {"clip": 1.0, "noise_multiplier": 1.0}}
    sections = {"client": client, "evaluate": {"every": 1}}
    with pytest.raises(
        fedsim.ScenarioError, match="looks at the targets of all clients without noise"
    ):
        run("discrete_cox", OWNERS, 1, **sections)
    written = {"kind": "discrete_cox", "bins": [10, 20, 30]}
    model = run(written, OWNERS, 1, **sections).model()
    assert model["baseline"].shape == (4,)
    assert all(np.isfinite(leaf).all() for leaf in model.values())
