"""Scores of the clients while a run lasts, and training before a score, by hand in NumPy."""

import numpy as np
import pytest
from building import built
from test_lanes import X64, ragged

import fedsim
from fedsim.assemble.forecast import notes
from fedsim.engine.scoring.clients import distribution

DATA = {"client_test": 0.5}


def run(client=None, data=None, **sections):
    return fedsim.run(
        {
            "name": "own",
            "rounds": 2,
            "data": {**DATA, **(data or {})},
            "client": {"lr": 0.3, "batch": 4, **(client or {})},
            "numerics": X64,
            **sections,
        },
        data=ragged(),
    )


def federation(result):
    return next(iter(result.experiment.plans.values())).federation


def losses(model, x, y):
    """Cross-entropy of logistic regression, and whether each label is met `[n]`."""
    z = x @ model["W"] + model["b"]
    return np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y], z.argmax(1) == y


def tuned(model, x, y, steps, lr):
    """The model after full steps on these samples."""
    W, b = model["W"], model["b"]
    for _ in range(steps):
        p = np.exp(x @ W + b)
        error = p / p.sum(1, keepdims=True) - np.eye(p.shape[1])[y]
        W, b = W - lr * x.T @ error / len(y), b - lr * error.mean(0)
    return {"W": W, "b": b}


TUNED = {"kind": "fine_tune", "batch": "full", "steps": 2, "epochs": None}


@pytest.mark.long
@pytest.mark.parametrize(("test", "steps"), [(0.0, 3), ({"clients": 0.3}, 3), (0.0, 0)])
def test_clients_train_before_they_are_scored_also_new_ones(test, steps):
    """New clients train on what `client_test` leaves of their samples."""
    result = run({**TUNED, "tune_steps": steps}, data={"test": test})
    f, model = federation(result), result.model()
    held_out = f.tuned.sizes - f.sizes > 0
    assert held_out.sum() == (0 if test == 0.0 else 4)
    assert not f.sizes[held_out].any() and (f.tuned.sizes > 0).all()

    for k, row in result.clients.iterrows():
        train, own = f.tuned.holders.of(k), f.test_holders.of(k)
        assert not set(train) & set(own)
        if not len(own):
            assert np.isnan(row["personal_loss"])
            continue
        mine = tuned(model, f.train.x[train], f.train.y[train], steps, 0.3)
        loss, hit = losses(mine, f.train.x[own], f.train.y[own])
        np.testing.assert_allclose(row["personal_loss"], loss.mean(), rtol=1e-9)
        assert row["personal_accuracy"] == pytest.approx(hit.mean())
        got = result.model(client=k)
        np.testing.assert_allclose(got["W"], mine["W"], rtol=1e-9, atol=1e-12)


def test_a_note_says_that_new_clients_have_nothing_to_train_on():
    blobs = {"kind": "gaussian_blobs", "samples": 200, "clients": 10, "test": {"clients": 0.2}}
    written = lambda share: {"name": "own", "data": {**blobs, "client_test": share}}
    told = lambda share: notes(built({**written(share), "method": "fine_tune"}))
    (note,) = [note for note in told(0.0) if "never train" in note]
    assert note.startswith("2 clients never train") and note.endswith("set data.client_test")
    assert not any("never train" in note for note in told(0.3))


NAMES = ("mean", "samples", "p10", "p50", "p90", "worst", "std")


@pytest.mark.long
def test_clients_are_scored_while_the_run_lasts():
    client = {"kind": "ditto", "lam": 0.1, "personal_steps": 2}
    evaluate = {"personal": True, "metric": "personal_accuracy_mean"}
    scored, silent = run(client, evaluate=evaluate), run(client)

    # Nothing else moves: half of what clients keep chooses, the other half tests.
    assert scored.rounds[silent.rounds.columns].equals(silent.rounds)
    f, before = federation(scored), federation(silent)
    for k in range(f.N):
        chooses, tests = f.validation_holders.of(k), f.test_holders.of(k)
        assert sorted([*chooses, *tests]) == sorted(before.test_holders.of(k))
        assert len(tests) - len(chooses) in (0, 1)

    # The last row, by hand: the shared model and each client's own on its validation samples.
    last = scored.rounds.iloc[-1]
    models = {"client": lambda k: scored.model(), "personal": lambda k: scored.model(client=k)}
    for name, model_of in models.items():
        values, labels = [], []
        for k in range(f.N):
            rows = f.validation_holders.of(k)
            if len(rows):
                _, hit = losses(model_of(k), f.train.x[rows], f.train.y[rows])
                values.append(hit.mean())
                labels.append(len(rows))
        want = distribution(f"{name}_accuracy", np.array(values), np.array(labels))
        assert list(want) == [f"{name}_accuracy_{part}" for part in NAMES]
        for column, value in want.items():
            assert last[column] == pytest.approx(value), column

    # The final score is on test samples, the best on those that choose the round.
    row = scored.summary.iloc[0]
    assert row["metric"] == "personal_accuracy_mean"
    assert row["final"] == pytest.approx(scored.clients["personal_accuracy"].mean())
    assert row["best"] == scored.rounds["personal_accuracy_mean"].max()


@pytest.mark.parametrize(
    ("wanted", "data"),
    [
        pytest.param(3, {"client_test": 0.3}, id="own samples"),
        pytest.param(0, {"client_test": 0.3}, id="nobody", marks=pytest.mark.long),
        pytest.param(3, {}, id="samples of all", marks=pytest.mark.long),
        pytest.param(3, {"test": {"clients": 0.4}}, id="new clients", marks=pytest.mark.long),
    ],
)
def test_scores_of_some_clients_are_those_of_a_run_that_scores_all(wanted, data):
    base = {"name": "scored", "rounds": 2, "model": "logistic", "client": {"lr": 0.1, "batch": 7}}
    sections = {"kind": "gaussian_blobs", "samples": 200, "clients": 10, "shape": [5], **data}
    runs = [
        fedsim.run({**base, "data": sections, "evaluate": {"clients": n}}) for n in ("all", wanted)
    ]
    unscored = runs[0].clients["samples"] * np.nan
    whole, some = (run.clients.get("global_accuracy", unscored) for run in runs)
    assert some.notna().sum() == min(wanted, whole.notna().sum()) and whole.notna().any()
    assert (some[some.notna()] == whole[some.notna()]).all()
    assert runs[0].rounds.equals(runs[1].rounds)


@pytest.mark.long
def test_clients_without_test_samples_are_not_drawn_to_be_scored():
    """Ten clients, of whom nine keep nothing for testing: drawn is the one that does."""
    x, y, ids = np.eye(19, 3), np.arange(19) % 2, np.array([*range(9), *[9] * 10])
    data = {"partition": "natural", "client_test": 0.3}
    written = {"name": "few", "rounds": 1, "data": data, "evaluate": {"clients": 1}}
    clients = fedsim.run(written, data=fedsim.Arrays(x, y, client=ids), seeds=3).clients
    assert clients["global_accuracy"].notna().tolist() == 3 * ([False] * 9 + [True])
