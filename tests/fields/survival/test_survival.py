"""Cox losses, the C-index and Kaplan-Meier curves, against lifelines 0.30.3.

lifelines is not among the test tools: it needs an older pandas than fedsim. `rossi.csv` is its data
set `load_rossi` (Rossi, Berk, Lenihan 1980), and the numbers are what it computes.
"""

import functools
import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from test_readme import block

import fedsim
from fedsim.compose import FAMILIES
from fedsim.errors import DataError, ScenarioError
from fedsim.fields.survival.figures import figures
from fedsim.fields.survival.lines import steps_of
from fedsim.fields.survival.page import section
from fedsim.report.context import context_of
from fedsim.report.page.sources import Source
from fedsim.runs.verify import verify
from fedsim.types import Loss

ROSSI = pd.read_csv(Path(__file__).parent / "rossi.csv")
NAMES = ["fin", "age", "race", "wexp", "mar", "paro", "prio"]
FEATURES = ROSSI[NAMES].to_numpy(float)
SCALE = FEATURES.std(axis=0)
X = (FEATURES - FEATURES.mean(axis=0)) / SCALE
Y = ROSSI[["week", "arrest"]].to_numpy()
OWNERS = np.arange(len(Y)) % 4

# CoxPHFitter().fit(rossi, "week", "arrest"), and the same with strata=["client"].
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
    loss = FAMILIES["loss"][kind](**keys)
    assert isinstance(loss, Loss)
    return loss


def scenario(loss, rounds=2, **sections):
    plain = {
        "name": "survival",
        "rounds": rounds,
        "data": {"test": 0},
        "model": {"kind": "linear", "loss": loss},
        "client": {"batch": "full", "lr": 2.0, "epochs": 1},
        "evaluate": {"every": rounds, "metrics": ["c_index"]},
        "numerics": {"dtype": "float64"},
    }
    return plain | sections


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


@pytest.mark.parametrize(
    ("why", "data", "expected"),
    [
        ("ties of times and outputs", (0, 60, 12, 0.6), 0.5319767441860465),
        ("few ties of times", (1, 60, 1000, 0.6), 0.5555555555555556),
        ("many ties of times", (2, 60, 3, 0.9), 0.5793718166383701),
        ("nothing is censored", (3, 40, 12, 1.0), 0.5),
        ("nearly all are censored", (4, 40, 12, 0.05), 0.078125),
    ],
)
def test_the_c_index_is_that_of_lifelines(why, data, expected):
    y, outputs = drawn(*data)
    assert fedsim.measure("c_index", y, outputs) == pytest.approx(expected, abs=1e-12), why


@pytest.mark.parametrize(
    ("why", "times", "outputs"),
    [("few ties", 10**6, 10**6), ("ties of times", 4, 10**6), ("ties of outputs", 50, 3)],
)
def test_the_c_index_is_the_weighted_share_of_all_pairs(why, times, outputs):
    rng = np.random.default_rng(3)
    y = np.stack([rng.integers(1, times, 200), rng.integers(0, 2, 200)], axis=1)
    o = rng.integers(0, outputs, 200)
    w = rng.random(200)
    time, event = y.T
    is_later = (time[:, None] < time) | (time[:, None] == time) & (event == 0)
    pairs = (event == 1)[:, None] * is_later * w[:, None] * w
    agree = (o[:, None] > o) + 0.5 * (o[:, None] == o)
    expected = (pairs * agree).sum() / pairs.sum()
    assert fedsim.measure("c_index", y, o, w) == pytest.approx(expected, abs=1e-12), why


def test_a_c_index_needs_two_samples_that_can_be_compared():
    assert np.isnan(fedsim.measure("c_index", [[1, 0], [2, 1]], [0.0, 1.0]))
    with pytest.raises(ScenarioError, match=r"write times and events \[n, 2\]"):
        fedsim.measure("c_index", [0, 1], [0.0, 1.0])


BRESLOW = {"kind": "cox", "ties": "breslow"}


def test_survival_csv_has_the_kaplan_meier_curve_of_every_client(tmp_path):
    without_events = np.where(OWNERS[:, None] == 2, Y * [1, 0], Y)  # of client 2
    data = fedsim.Arrays(x=X, y=without_events, client=OWNERS)
    result = fedsim.run(scenario(BRESLOW), data=data, out=tmp_path / "run")
    assert all(np.isfinite(leaf).all() for leaf in result.model().values())
    clients = result.clients
    assert clients["global_c_index"].isna().tolist() == [False, False, True, False]
    assert np.isfinite(clients["global_loss"]).all() and clients["global_loss"][2] == 0
    table = pd.read_csv(tmp_path / "run" / "survival.csv")
    first = table[table["client"] == 0].set_index("time")
    # KaplanMeierFitter().fit(rossi.week[::4], rossi.arrest[::4])
    expected = {18: 0.9074074074074076, 35: 0.8055555555555554, 52: 0.712962962962963}
    assert first["survival"][list(expected)].to_dict() == pytest.approx(expected, abs=1e-12)
    assert first.loc[52, ["at_risk", "events"]].tolist() == [78, 1]
    assert table["client"].unique().tolist() == [0, 1, 2, 3]
    shown = section([Source({}, {"survival": table})], context_of({"name": "rossi"}))
    assert shown is not None and shown.html.count('class="key s') == 4
    assert f'<td data-sort="{first["events"].sum()}"' in shown.html
    ((name, pages),) = figures({"survival": table}, context_of({"name": "rossi"}))
    assert name == "survival" and len(pages[0].axes[0].lines) == 4


def test_curves_are_steps_of_the_first_run_and_the_largest_clients_come_first():
    rows = {"method": "fedavg", "seed": 0, "client": ["a", "b", "b"], "time": [2.0, 1.0, 4.0]}
    rows |= {"at_risk": [1, 2, 1], "events": [0, 1, 1], "survival": [1.0, 0.5, 0.0]}
    first = pd.DataFrame(rows)
    table = pd.concat([first, first.assign(seed=1), first.assign(method="median")])
    b, a = steps_of(table)
    assert (b.client, b.samples, b.events, b.median) == ("b", 2, 2, 1.0)
    assert b.time.tolist() == [0, 1, 1, 4, 4] and b.survival.tolist() == [1, 1, 0.5, 0.5, 0]
    assert (a.samples, a.events, a.median) == (1, 0, None)


@pytest.mark.long
def test_a_run_of_cox_regression_is_verified_and_forgets_a_client(tmp_path):
    data = fedsim.Arrays(x=X, y=Y, client=OWNERS)
    of_run = scenario("cox", data={"test": 0.3}, evaluate={"metrics": ["c_index"]})
    result = fedsim.run(of_run, data=data, out=tmp_path / "run")
    assert verify(tmp_path / "run", data=data).equal
    forgotten = fedsim.unlearn(tmp_path / "run", clients=1, out=tmp_path / "without", data=data)
    original = forgotten.table.set_index("how").loc["original"]
    assert original["test_loss"] == result.rounds["test_loss"].iloc[-1]
    assert "attack_auc" not in forgotten.table  # no sample has a loss of its own


def test_a_table_names_the_columns_of_times_and_events(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = ROSSI.assign(client=OWNERS, arrest=ROSSI["arrest"].astype(bool))
    frame.to_csv("rossi.csv", index=False)
    (tmp_path / "folder").mkdir()
    for client, rows in frame.groupby("client"):
        rows.drop(columns="client").to_csv(f"folder/{client}.csv", index=False)
    target = {"time": "week", "event": "arrest"}
    data = {"target": target, "standardize": True, "test": 0}
    of_file = scenario(BRESLOW, data=data | {"kind": "csv", "path": "rossi.csv"})
    of_folder = scenario(BRESLOW, data=data | {"kind": "csv", "path": "folder"})
    found = [fedsim.run(each).model()["W"] for each in (of_file, of_folder)]
    found.append(fedsim.run(scenario(BRESLOW, data=data), data=frame).model()["W"])
    for one, other in itertools.pairwise(found):
        np.testing.assert_allclose(one, other, atol=1e-12)


def of_table(**target) -> dict:
    return {"data": {"test": 0, "target": target}}


def of_arrays(y) -> fedsim.Arrays:
    return fedsim.Arrays(x=X, y=y, client=OWNERS)


TIMES = {"time": "week", "event": "arrest"}
SQUARED = {"kind": "linear", "loss": "squared"}
OF_SAMPLES = {"client": {"dp_sgd": {"clip": 1.0, "noise_multiplier": 1.0}}}
SCORED = {"model": "linear"}  # by the C-index
CLASSES = {"data": {"test": 0, "target": "arrest"}}
# why, sections, data, the line
REFUSED = [
    ("no event", of_table(time="week"), ROSSI, "data.target.event: is missing"),
    ("no time", of_table(event="arrest"), ROSSI, "data.target.time: is missing"),
    ("no such column", of_table(time="weak", event="arrest"), ROSSI, "did you mean 'week'"),
    ("one column", of_table(time="week", event="week"), ROSSI, "both time and event"),
    ("other events", of_table(time="week", event="age"), ROSSI, "events of 0 or 1"),
    ("times of 0", of_table(time="prio", event="arrest"), ROSSI, "times above 0"),
    ("classes", CLASSES, ROSSI, "cox is for times and events"),
    ("another loss", {**of_table(**TIMES), "model": SQUARED}, ROSSI, "are times and events; write"),
    ("a time of 0", {}, of_arrays(Y * [[0, 1]]), "times above 0, and there is a time 0"),
    ("an event of 3", {}, of_arrays(Y + [[0, 2]]), "events of 0 or 1, and there is an event 3"),
    ("times alone", {}, of_arrays(Y[:, 0] + 0.5), r"give y \[n, 2\], or data.target"),
    ("another metric", {"evaluate": {"metrics": ["r2"]}}, of_arrays(Y), "not for times and events"),
    pytest.param(
        *("gradients of samples", OF_SAMPLES, of_arrays(Y), "cox compares the samples of a batch"),
        marks=pytest.mark.long,
    ),
    ("a graph", {"topology": "ring"}, of_arrays(Y), "nodes of a topology are scored by the losses"),
    ("losses of samples", {"method": "ifca"}, of_arrays(Y), "ifca chooses models by the losses"),
    ("a C-index of classes", SCORED, of_arrays(Y[:, 1]), "c_index is for times and events"),
    ("a C-index of numbers", SCORED, of_arrays(Y * 1.0), "c_index is for times and events"),
]


@pytest.mark.parametrize(("why", "sections", "data", "line"), REFUSED)
def test_what_has_no_times_and_events_or_needs_losses_of_samples_is_one_line(
    why, sections, data, line
):
    with pytest.raises((ScenarioError, DataError), match=line) as refused:
        fedsim.run(scenario("cox") | sections, data=data)
    assert len(str(refused.value).splitlines()) == 1, why


@pytest.mark.long
def test_the_page_says_what_happens(root, capsys):
    page = (root / "docs/scenarios/metrics.md").read_text(encoding="utf-8")
    exec(compile(block(page, "survival"), "metrics.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.endswith(block(page, "printed by survival"))


@pytest.mark.long
def test_written_ends_of_intervals_need_no_look_at_times_and_are_private():
    """With dp_sgd a number of intervals is refused, and its ends are taken."""
    client = {"batch": 20, "lr": 0.1, "dp_sgd": {"clip": 1.0, "noise_multiplier": 1.0}}
    sections = {"client": client, "evaluate": {"every": 1}}
    with pytest.raises(ScenarioError, match="looks at the targets of all clients without noise"):
        run("discrete_cox", OWNERS, 1, **sections)
    written = {"kind": "discrete_cox", "bins": [10, 20, 30]}
    model = run(written, OWNERS, 1, **sections).model()
    assert model["baseline"].shape == (4,)
    assert all(np.isfinite(leaf).all() for leaf in model.values())
