"""`fedsim fork --unlearn`: retraining, FedEraser, against NumPy and each other."""

import json

import numpy as np
import pandas as pd
import pytest
from directories import tiny

import fedsim
from fedsim.cli import entry
from fedsim.errors import CheckpointError, DirectoryError
from fedsim.runs.ended import ended_run
from fedsim.tools.unlearn.federaser import Calibration, calibrated
from fedsim.tools.unlearn.forgetting import auc

ROUNDS = 7
STEPS = 4
FORGOTTEN = (2, 5)
BLOBS = {"kind": "gaussian_blobs", "samples": 240, "shape": [6], "classes": 3, "clients": 8}


def plain(**sections):
    """A run of plain clients in float64, some of whom are drawn, and some of whom lose messages."""
    return {
        "name": "plain",
        "rounds": ROUNDS,
        "seeds": [0],
        "data": BLOBS,
        "model": "logistic",
        "cohort": {"kind": "uniform", "size": 5},
        "fleet": {"dropout": 0.3},
        "client": {"lr": 0.3, "batch": "full", "steps": STEPS},
        "server": ["mean", {"kind": "sgd", "lr": 0.7}],
        "numerics": {"dtype": "float64"},
        **sections,
    }


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unlearn") / "original"
    fedsim.run(plain(), out=folder, pictures=False)
    return folder


@pytest.fixture(scope="module")
def unlearned(original, tmp_path_factory):
    out = tmp_path_factory.mktemp("unlearned") / "out"
    return fedsim.unlearn(original, clients=[5, 2, 5], out=out, progress=False), out


# ------------------------------------------------------------------------- plain NumPy


def gradient(params, x, y, classes):
    """Of the mean cross-entropy of a softmax regression."""
    scores = x @ params["W"] + params["b"]
    chances = np.exp(scores - scores.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    slope = (chances - np.eye(classes)[y]) / len(x)
    return {"W": x.T @ slope, "b": slope.sum(0)}


def update(params, samples, steps):
    """What a client of full-batch gradient descent sends."""
    x, y, classes = samples
    moved = dict(params)
    for _ in range(steps):
        slope = gradient(moved, x, y, classes)
        moved = {name: moved[name] - 0.3 * slope[name] for name in moved}
    return {name: moved[name] - params[name] for name in moved}


def mean_step(params, updates, sizes):
    """The server's step of 0.7 times the mean by samples; none where nobody reports."""
    if not updates:
        return params
    shares = np.array(sizes) / sum(sizes)
    mean = lambda name: sum(p * each[name] for p, each in zip(shares, updates, strict=True))
    return {name: params[name] + 0.7 * mean(name) for name in params}


def length(tree):
    return np.sqrt(sum(np.sum(leaf**2) for leaf in tree.values()))


def fed_eraser(start, cohorts, samples, forgotten, settings):
    """Algorithm 1 of Liu et al. 2021, from the first round of the forgotten clients on."""
    params = start
    recorded = []  # per round, updates by client
    models = [start]
    for cohort in cohorts:
        of_round = {client: update(params, samples[client], STEPS) for client in cohort}
        recorded.append(of_round)
        sizes = [len(samples[client][0]) for client in cohort]
        params = mean_step(params, list(of_round.values()), sizes)
        models.append(params)

    first = next(r for r, cohort in enumerate(cohorts) if set(cohort) & set(forgotten))
    calibrated_model = models[first]
    for r in range(first, len(cohorts), settings.every):
        remaining = [client for client in cohorts[r] if client not in forgotten]
        updates = []
        for client in remaining:
            old = recorded[r][client]
            new = update(calibrated_model, samples[client], int(np.ceil(settings.ratio * STEPS)))
            if r == first:  # the recorded updates, as they are
                updates.append(old)
            else:
                factor = length(old) / length(new)
                updates.append({name: factor * new[name] for name in new})
        sizes = [len(samples[client][0]) for client in remaining]
        calibrated_model = mean_step(calibrated_model, updates, sizes)
    return calibrated_model


def parts_of(path):
    """Start model, cohorts whose messages count, and samples by client, of a plain run."""
    run = ended_run(path, None, (), "unlearn", "unlearn clients of")
    with run.numerics() as devices:
        experiment = run.build(devices)
    plan = experiment.plans[0]
    f = plan.federation
    cohorts = []
    for r in range(1, plan.rounds + 1):
        work, _ = plan.round(r)
        cohorts.append(work.ids[work.weight > 0].tolist())
    samples = {}
    for client in range(f.N):
        rows = f.holders.of(client)
        samples[client] = (f.train.x[rows].astype(float), f.train.y[rows], f.classes)
    start = {name: np.asarray(leaf) for name, leaf in experiment.shared[0]["params"].items()}
    return start, cohorts, samples


@pytest.mark.long
@pytest.mark.parametrize(
    "settings", [Calibration(), Calibration(every=1, ratio=0.25), Calibration(every=3, ratio=1.0)]
)
def test_federaser_is_the_algorithm_of_the_paper(original, tmp_path, settings):
    """With clients that are not drawn, messages that are lost, and a server step of 0.7."""
    options = {"out": tmp_path / "out", "how": "federaser", "progress": False}
    result = fedsim.unlearn(original, clients=FORGOTTEN, **options, **settings._asdict())
    expected = fed_eraser(*parts_of(original), FORGOTTEN, settings)
    params = result.models["federaser", 0]["params"]
    for name, leaf in expected.items():
        np.testing.assert_allclose(params[name], leaf, rtol=1e-9, atol=1e-12)


# ----------------------------------------------------------------------------- what is written


@pytest.mark.long
def test_the_table_says_what_each_way_made_and_cost(original, unlearned):
    """The order in which clients are named does not matter."""
    result, out = unlearned
    table = result.table.set_index("how")
    assert list(table.index) == ["original", "retrain", "federaser"]
    assert table.loc["retrain", "distance"] == 0 and table.loc["original", "distance"] > 0
    assert table.loc["original", "relative_distance"] == 1
    assert table.loc["original", "rounds"] == table.loc["retrain", "rounds"] == ROUNDS
    first = int(table.loc["original", "first_round"])
    assert table.loc["federaser", "rounds"] == len(calibrated(first, ROUNDS, 2))
    assert 0 < table.loc["federaser", "gradient_steps"] < table.loc["retrain", "gradient_steps"]

    summary = pd.read_csv(original / "rounds.csv").iloc[-1]
    assert table.loc["original", "test_loss"] == summary["test_loss"]
    retrained = pd.read_csv(out / "retrain/rounds.csv").iloc[-1]
    assert table.loc["retrain", "test_accuracy"] == retrained["test_accuracy"]
    assert fedsim.verify(out / "retrain").equal

    written = pd.read_csv(out / "unlearning.csv")
    assert written["attack_auc"].tolist() == result.table["attack_auc"].tolist()
    for way in ("retrain", "federaser"):
        model = fedsim.load_model(out / f"model.{way}.0.safetensors")["params"]
        np.testing.assert_array_equal(model["W"], result.models[way, 0]["params"]["W"])
    assert json.loads((out / "unlearning.json").read_text())["clients"] == list(FORGOTTEN)


def test_the_attack_counts_pairs():
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, 5, 20), rng.integers(0, 5, 30)
    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert auc(positive, negative) == pytest.approx(np.mean(pairs))


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    """A run of four rounds, in which clients 5 to 7 take no part."""
    folder = tmp_path_factory.mktemp("listed") / "original"
    cohort = {"kind": "listed", "rounds": [[0, 1, 2], [1, 4, 3]] * 2}
    fedsim.run(plain(rounds=4, cohort=cohort), out=folder, pictures=False)
    return folder


def test_a_client_that_never_took_part_leaves_the_original(listed, tmp_path):
    """Byte for byte, and nothing is trained."""
    out = tmp_path / "out"
    result = fedsim.unlearn(listed, clients=7, out=out, progress=False)

    model = next(listed.glob("model.*")).read_bytes()
    for way in ("retrain", "federaser"):
        assert (out / f"model.{way}.0.safetensors").read_bytes() == model
    assert not (out / "retrain").exists()
    table = result.table.set_index("how")
    assert set(table["distance"]) == {0} and table["attack_auc"].nunique() == 1
    assert set(table.loc[["retrain", "federaser"], "gradient_steps"]) == {0}
    assert "already without it" in result.notes[0]


@pytest.mark.long
def test_seeds_are_paired(tmp_path):
    fedsim.run(plain(seeds=[0, 1, 2], rounds=3), out=tmp_path / "original", pictures=False)
    options = {"clients": FORGOTTEN, "out": tmp_path / "out", "how": "federaser"}
    result = fedsim.unlearn(tmp_path / "original", progress=False, **options)
    table = result.table.pivot(index="seed", columns="how", values="forgotten_loss")
    row = result.differences.set_index(["how", "column"]).loc[("federaser", "forgotten_loss")]
    difference = table["federaser"] - table["retrain"]
    assert row["seeds"] == 3 and row["difference"] == pytest.approx(difference.mean())
    assert row["ci_low"] < row["difference"] < row["ci_high"]


# ------------------------------------------------------------------------------------- refusals


def test_what_cannot_be_unlearned_is_refused(listed, tmp_path):
    for clients, options, refusal, said in (
        (8, {}, CheckpointError, "client 8: the run has the clients 0 to 7"),
        (range(8), {}, CheckpointError, "no client with samples would be left"),
        (1, {"out": listed}, DirectoryError, "already exists"),
        (1, {"out": listed, "force": True}, DirectoryError, "nothing of fedsim fork --unlearn"),
        (1, {"ratio": 0}, ValueError, "ratio"),
    ):
        with pytest.raises(refusal, match=said):
            fedsim.unlearn(listed, clients=clients, **{"out": tmp_path / "out", **options})
    assert not (tmp_path / "out").exists()


PRIVACY = {"clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-3}
REFUSED = {
    "stateful": (tiny(rounds=2, seeds=[0]), "clients of scaffold send, keep or measure more"),
    "asynchronous": (
        plain(schedule="fedasync(concurrency=4)", server=["mean"], cohort="all", fleet={}),
        "depends on earlier rounds",
    ),
    "secure": (
        plain(wire=["secure_aggregation"], server=["mean(weights=uniform)"], fleet={}),
        "no updates of single clients",
    ),
    "several models": (plain(method="ifca", server=None, fleet={}), "no single model"),
    "private": (
        plain(privacy=PRIVACY, server=["mean"], cohort={"kind": "poisson", "rate": 0.5}, fleet={}),
        "which ε does not cover",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", REFUSED)
def test_a_way_that_a_run_does_not_support_is_refused(name, tmp_path, capsys):
    scenario, reason = REFUSED[name]
    scenario = {key: value for key, value in scenario.items() if value is not None}
    fedsim.run({**scenario, "rounds": 2}, out=tmp_path / "original", pictures=False)
    words = ["--client", "1", "-o", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        entry.main(["fork", "--unlearn", str(tmp_path / "original"), *words])
    error = capsys.readouterr().err
    assert ended.value.code == 7 and reason in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_the_command_prints_the_table_and_goes_on(original, tmp_path, capsys):
    clients = ["--client", "2", "--client", "5"]
    words = ["fork", "--unlearn", str(original), *clients, "-o", str(tmp_path / "o")]
    entry.main(words)
    shown = capsys.readouterr()
    assert "federaser" in shown.out and "attack AUC" in shown.out
    table = (tmp_path / "o/unlearning.csv").read_bytes()
    entry.main([*words, "--resume", "--quiet"])
    assert (tmp_path / "o/unlearning.csv").read_bytes() == table
    assert capsys.readouterr().out == ""
