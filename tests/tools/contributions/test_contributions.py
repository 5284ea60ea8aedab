"""`fedsim report --contributions`: what clients contributed to the score of a run."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import fedsim
from fedsim.cli.entry import main
from fedsim.errors import CheckpointError
from fedsim.tools.contributions.analysis import contributions
from fedsim.tools.contributions.figure import figure_of_contributions

CLASSES = 3
SIZES = (30, 30, 60, 20)  # of clients 0 to 3; client 4 has test samples alone


@fedsim.dataset
def twins_of_a_kind() -> fedsim.Arrays:
    """Clients 0 and 1 have the same samples, and client 4 has none to train on."""
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(CLASSES, 4))

    def drawn(n: int) -> tuple[NDArray, NDArray]:
        y = rng.integers(0, CLASSES, n)
        return centres[y] + rng.normal(size=(n, 4)), y

    parts = [drawn(n) for n in SIZES]
    parts[1] = parts[0]
    x, y = map(np.concatenate, zip(*parts, strict=True))
    return fedsim.Arrays(x, y, np.repeat(np.arange(4), SIZES), *drawn(200), np.full(200, 4))


def twins(**sections):
    """Every client takes part in every round with all of its samples, in float64."""
    return {
        "name": "twins",
        "rounds": 3,
        "seeds": [0],
        "data": {"kind": "twins_of_a_kind", "partition": "natural"},
        "model": "logistic",
        "client": {"lr": 0.5, "batch": "full", "epochs": 2},
        "evaluate": {"metric": "test_loss"},
        "numerics": {"dtype": "float64"},
        "checkpoint": {"updates": True},
        **sections,
    }


def run(folder, **sections):
    fedsim.run(twins(**sections), out=folder, pictures=False)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return run(tmp_path_factory.mktemp("twins") / "run")


@pytest.fixture(scope="module")
def found(trained):
    return contributions(trained)


def values_of(found):
    """Contributions by client."""
    return dict(zip(found.table["client"], found.table["value"], strict=True))


def loss_of(params, arrays):
    """The mean cross-entropy of a logistic model on the test samples, in NumPy."""
    logits = arrays.x_test @ params["W"] + params["b"]
    logits = logits - logits.max(axis=1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -log_p[np.arange(len(log_p)), arrays.y_test].mean()


def test_values_are_those_of_their_definition(trained, found):
    """Weighted means of kept updates, scored and shared out over all orders, in NumPy."""
    arrays = twins_of_a_kind()
    expected = np.zeros(5)
    for updates in fedsim.updates_of(trained):

        def value(players, updates=updates):
            weights = np.array([updates.weights[player] for player in players])
            params = {}
            for name, before in updates.params_before.items():
                rows = updates.updates[name][list(players)]
                step = np.tensordot(weights / weights.sum(), rows, 1) if len(players) else 0
                params[name] = before + step
            return -loss_of(params, arrays)

        K = len(updates.clients)
        for order in itertools.permutations(range(K)):
            for j in range(K):
                gain = value(order[: j + 1]) - value(order[:j])
                expected[updates.clients[order[j]]] += gain / math.factorial(K)
    values = values_of(found)
    np.testing.assert_allclose([values[client] for client in range(5)], expected, atol=1e-10)


def test_values_sum_to_the_gain_of_every_round(trained, found):
    losses = pd.read_csv(trained / "rounds.csv")["test_loss"].to_numpy()
    assert found.score == "test_loss"
    assert abs(found.gain - (losses[0] - losses[-1])) < 1e-12
    by_round = found.by_round.groupby("round")["value"].sum().to_numpy()
    np.testing.assert_allclose(by_round, losses[:-1] - losses[1:], atol=1e-12)
    without_samples = found.table.set_index("client").loc[4]
    assert without_samples["samples"] == without_samples["value"] == 0


@pytest.mark.long
def test_gtg_comes_near_unless_options_stop_it(trained, found, capsys):
    """A round that gains little gives everybody 0."""
    tables = []
    for words in (["--between", "9"], ["--between", "0", "--within", "0"]):
        main(["report", "--contributions", str(trained), "--how", "gtg", "--json", *words])
        plain = json.loads(capsys.readouterr().out)
        tables.append({row["client"]: row for row in plain["clients"]})
    stopped, whole = tables
    assert {row["value"] for row in stopped.values()} == {0.0}
    for client, value in values_of(found).items():
        row = whole[client]
        assert abs(row["value"] - value) <= 4 * row["standard_error"] + 1e-12
    assert abs(sum(row["value"] for row in whole.values()) - found.gain) < 1e-12


@pytest.mark.long
def test_bars_have_their_numbers_and_intervals():
    """A bar for each client, whiskers where there are seeds, and of many clients both ends."""
    row = {"standard_error": None, "samples": 9, "rounds": 3}
    rows = [
        {"client": 7, "value": 0.25, "low": 0.125, "high": 0.375, **row},
        {"client": "<b>", "value": -0.0625, "low": -0.5, "high": 0.375, **row},
    ]
    figure = figure_of_contributions(rows, "bars", "loss", "a note")
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [0.25, -0.0625]
    whiskers = [line.get_xdata() for line in axes.lines if line.get_label() == "interval"]
    assert [list(ends) for ends in whiskers] == [[0.125, 0.375], [-0.5, 0.375]]
    assert [text.get_text() for text in axes.texts] == ["+0.25", "-0.0625"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["7", "<b>"]

    many = [{**rows[0], "client": number, "value": -float(number)} for number in range(60)]
    figure = figure_of_contributions(many, "bars", "loss", "a note")
    labels = [int(label.get_text()) for label in figure.axes[0].get_yticklabels()]
    assert labels == [*range(24), *range(36, 60)]
    note = " ".join(text.get_text() for text in figure.texts)
    assert "12 between them are not drawn" in " ".join(note.split())


@pytest.mark.long
def test_an_attacker_comes_last_whatever_the_rule_and_where_no_updates_were_kept(tmp_path):
    """Client 2 has the most samples, and sends the opposite; a replay makes its updates again."""
    sections = {"wire": ["sign_flip"], "fleet": {"malicious": [2]}}
    server = ["median", {"kind": "sgd", "lr": 0.5}]
    attacked = run(tmp_path / "run", server=server, checkpoint={"seconds": 10.0}, **sections)
    losses = pd.read_csv(attacked / "rounds.csv")["test_loss"].to_numpy()
    for how in ("shapley", "gtg"):
        found = contributions(attacked, how=how)
        assert abs(found.gain - (losses[0] - losses[-1])) < 1e-12
        assert found.table["client"].iloc[-1] == 2 and found.table["value"].iloc[-1] < 0


@pytest.mark.long
def test_left_out_clients_are_those_of_a_comparison(tmp_path):
    """The value of a client is the paired difference of two runs, with an interval over seeds."""
    short = {"rounds": 1, "seeds": [0, 1], "client": {"lr": 0.5, "batch": 8, "epochs": 1}}
    trained = run(tmp_path / "run", **short)
    found = contributions(trained, how="leave_one_out", seeds=[0, 1])
    scores = {}
    for gone in ([], [2]):
        scenario = twins(fleet={"without": gone}, **short)
        last = fedsim.run(scenario, pictures=False).rounds.groupby("seed")["test_loss"].last()
        scores[str(gone)] = last.to_numpy()
    differences = scores["[2]"] - scores["[]"]
    row = found.table.set_index("client").loc[2]
    assert row["value"] == pytest.approx(differences.mean(), abs=1e-12)
    half = 12.706204736432095 * differences.std(ddof=1) / math.sqrt(2)
    assert row["low"] == pytest.approx(differences.mean() - half, abs=1e-9)
    assert found.table.set_index("client").loc[4, "value"] == 0


REFUSED = [
    ({"method": "fedadam"}, "an optimiser of the server remembers earlier rounds"),
    ({"method": "fedper", "model": "mlp"}, "clients keep leaves of the model to themselves"),
    ({"evaluate": {"metric": "train_loss"}}, "evaluate.metric is train_loss"),
]


@pytest.mark.long
@pytest.mark.parametrize(("sections", "reason"), REFUSED)
def test_what_has_no_models_of_coalitions_is_refused(tmp_path, sections, reason):
    with pytest.raises(CheckpointError, match=reason):
        contributions(run(tmp_path / "run", rounds=1, **sections))


def test_the_command_prints_and_writes_them(trained, found, tmp_path, capsys):
    main(["report", "--contributions", str(trained), "--out", str(tmp_path / "out")])
    assert "what test loss gained" in capsys.readouterr().out
    names = {f"contributions.{ending}" for ending in ("csv", "png", "svg")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    lines = (tmp_path / "out/contributions.csv").read_text().splitlines()
    assert lines[0] == "client,value,low,high,standard_error,samples,rounds"
    assert len(lines) == 6
    main(["report", "--contributions", str(trained), "--json"])
    plain = json.loads(capsys.readouterr().out)
    assert plain["clients"] == found.records and plain["gain"] == found.gain


@pytest.mark.long
def test_bad_input_is_one_line(trained, tmp_path, capsys):
    many = {"kind": "gaussian_blobs", "clients": 9, "samples": 90}
    run(tmp_path / "crowd", rounds=1, data=many)
    cases = [
        ((tmp_path / "crowd",), 2, "round 1 has 9 clients"),
        ((trained, "--seeds", "7,"), 7, "seed 7 is not one of"),
        ((trained, "--how", "banzhaf"), 2, "'banzhaf' is not one of"),
        ((trained, "--between", "0"), 2, "--between is for --how gtg"),
        ((trained, "--how", "gtg", "--within", "nan"), 2, "truncation.within: should be a number"),
        ((tmp_path / "none",), 4, "none: holds no fedsim run"),
    ]
    for words, code, text in cases:
        with pytest.raises(SystemExit) as ended:
            main(["report", "--contributions", *map(str, words)])
        line = capsys.readouterr().err
        assert ended.value.code == code and text in line, line
        assert len(line.splitlines()) == 1
