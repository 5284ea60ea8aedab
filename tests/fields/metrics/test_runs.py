"""What runs measure: columns of the tables, means over clients, and what is ranked by."""

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import own_kinds_of
from test_readme import block

import fedsim
from fedsim import ScenarioError
from fedsim.disk.scores import is_share, larger_is_better, worst
from fedsim.runs.result import Result

BLOBS = {"kind": "gaussian_blobs", "samples": 200, "classes": 3, "clients": 6, "client_test": 0.5}
NUMBERS = {"kind": "linear_regression", "clients": 6, "samples": 30, "client_test": 0.5}
METRICS = {
    "auc": "auc",
    "f1_macro": {"kind": "f1", "average": "macro"},
    "f1_micro": "f1(average=micro)",
    "top_k": "top_k(k=2)",
    "brier": "brier",
}


# Some clients have samples of one class alone.
MEASURED = {
    "name": "measured",
    "rounds": 2,
    "data": {**BLOBS, "partition": "dirichlet(alpha=0.2, min_samples=4)", "validation": 0.1},
}


def run(**sections) -> Result:
    return fedsim.run({**MEASURED, **sections})


@pytest.fixture(scope="module")
def measured() -> Result:
    evaluate = {"metrics": [*METRICS.values()], "metric": "test_auc"}
    return run(evaluate={**evaluate, "personal": True, "confusion": True})


def test_metrics_of_the_outputs_are_columns_and_change_no_other_bit(measured):
    plain = run(evaluate={"personal": True}).rounds
    pd.testing.assert_frame_equal(measured.rounds[list(plain)], plain)
    test = measured.experiment.plans[0].federation.test
    outputs = measured.predict(test.x)
    last, summary = measured.rounds.iloc[-1], measured.summary.iloc[0]
    for name, metric in METRICS.items():
        expected = fedsim.measure(metric, test.y, outputs)
        assert last[f"test_{name}"] == pytest.approx(expected, rel=1e-5), name
        assert summary[f"test_{name}"] == last[f"test_{name}"]
        assert f"validation_{name}" in measured.rounds
    assert summary["metric"] == "test_auc" and summary["final"] == last["test_auc"]
    assert summary["best"] == measured.rounds["test_auc"].max()
    np.testing.assert_allclose(measured.rounds["test_f1_micro"], plain["test_accuracy"])


def test_clients_without_a_score_are_left_out_of_means_and_counted(measured):
    last = measured.rounds.iloc[-1]
    assert 0 < last["client_auc_undefined"] < BLOBS["clients"]
    assert last["client_auc_worst"] <= last["client_auc_mean"] <= 1
    assert 0 < last["client_auc_samples"] <= 1
    assert last["client_brier_undefined"] == 0
    assert last["client_brier_worst"] >= last["client_brier_p90"]


@pytest.mark.long
def test_a_score_that_no_client_has_is_no_column():
    data = {**BLOBS, "partition": "pathological(classes=1)", "clients": 4}
    alone = run(data=data, evaluate={"metrics": ["auc"], "personal": True})
    assert alone.rounds["client_auc_undefined"].iloc[-1] == 4
    assert "client_auc_mean" not in alone.rounds and alone.clients["global_auc"].isna().all()


def test_methods_are_ranked_by_any_score_of_all_clients(measured):
    metric = "client_f1_macro_p10"
    summary = run(evaluate=measured.scenario["evaluate"] | {"metric": metric}).summary.iloc[0]
    assert (summary["metric"], summary["best"]) == (metric, measured.rounds[metric].max())
    assert summary["final"] == pytest.approx(measured.clients["global_f1_macro"].quantile(0.1))


@pytest.mark.long
@pytest.mark.parametrize("method", ("ditto", "fine_tune", "knn_per", "ifca(clusters=2)"))
def test_personal_models_are_measured(method):
    evaluate = {"metrics": ["auc"], "personal": True, "metric": "personal_auc_mean"}
    result = run(method=method, model="mlp", evaluate=evaluate)
    assert result.rounds["personal_auc_mean"].between(0, 1).all()
    final = result.clients["personal_auc"].dropna().mean()
    assert result.summary["final"][0] == pytest.approx(final)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sections", "tested"),
    [
        ({"method": "local_only"}, False),
        ({"method": "centralised"}, True),
        ({"topology": "ring"}, True),
    ],
)
def test_baselines_and_graphs_are_measured(sections, tested):
    result = run(evaluate={"metrics": ["auc"]}, **sections)
    assert ("test_auc" in result.rounds) == tested
    assert result.clients.filter(like="auc").notna().to_numpy().any()


def test_numbers_are_measured():
    evaluate = {"metrics": ["rmse", "pinball(q=0.9)", "r2"], "metric": "test_rmse"}
    result = run(data=NUMBERS, evaluate=evaluate)
    rounds = result.rounds
    assert rounds["test_rmse"].iloc[-1] < rounds["test_rmse"].iloc[0]
    assert result.summary["best"][0] == rounds["test_rmse"].min()
    variance = rounds["test_rmse"] ** 2 / (1 - rounds["test_r2"])
    np.testing.assert_allclose(variance, variance[0], rtol=1e-5)


@pytest.mark.long
def test_bits_per_token_are_the_loss_of_tokens(root):
    verse = str(root / "tests/fits/verse.txt")
    tokens = {"kind": "text", "path": verse, "length": 8, "clients": 8, "client_test": 0.4}
    model = {"kind": "transformer", "layers": 1, "heads": 1, "width": 4}
    metrics = ["bits_per_token", "top_k(k=3)"]
    result = run(data=tokens, model=model, evaluate={"metrics": metrics, "personal": True})
    rounds = result.rounds
    bits = rounds["test_bits_per_token"]
    np.testing.assert_allclose(bits, np.log2(rounds["test_perplexity"]), rtol=1e-5)
    assert (rounds["test_top_k"] >= rounds["test_accuracy"]).all()
    assert rounds["client_bits_per_token_mean"].notna().all()


def test_a_metric_of_the_users_is_measured(own_kinds):
    @fedsim.metric
    def missed_error(outputs, targets, weights, price: float = 5.0):
        missed = (targets == 1) & (outputs.argmax(axis=1) != 1)
        return price * np.average(missed, weights=weights)

    @fedsim.metric
    def answered(label: int = 0):
        def share(outputs, targets, weights):
            of_label = targets == label
            return (outputs.argmax(axis=1)[of_label] == label).mean() if of_label.any() else np.nan

        return share

    evaluate = {
        "metrics": ["missed_error(price=2)", "answered(label=1)", "recall(positive=1)"],
        "metric": "test_missed_error",
    }
    result = run(evaluate=evaluate)
    last = result.rounds.iloc[-1]
    assert last["test_answered"] == pytest.approx(last["test_recall"])
    assert result.summary["best"][0] == result.rounds["test_missed_error"].min()
    assert fedsim.measure("missed_error", [1, 1], [[1, 0], [0, 1]]) == 2.5
    assert fedsim.measure("missed_error", [1, 1], [[1, 0], [0, 1]], [0, 1]) == 0
    assert np.isnan(fedsim.measure("answered", [1, 1], [[1, 0], [0, 1]]))


def test_every_kind_has_a_direction():
    smaller = {"bits_per_token", "brier", "ece", "log_loss", "mae", "rmse", "pinball"}
    for kind in (*own_kinds_of("metric"), "f1_macro", "pinball_0.9"):
        for column in (f"test_{kind}", f"client_{kind}_mean", f"personal_{kind}_mean"):
            assert larger_is_better(column) == (kind.partition("_0")[0] not in smaller)
    assert not larger_is_better("client_f1_std")
    assert is_share("test_top_k") and is_share("client_ece_mean") and not is_share("test_kappa")
    assert worst("test_matthews") == -1 and worst("test_brier") == 2 and worst("test_ece") == 1
    assert larger_is_better("test_gain") and not larger_is_better("test_missed_error")
    assert worst("test_gain") == -np.inf


MANY = {**BLOBS, "classes": 101, "samples": 1010}
# a section, a part of the line, and other data
REFUSED = {
    "an unknown kind": ({"metrics": ["aucc"]}, "evaluate.metrics[0]: no metric 'aucc'"),
    "no list": ({"metrics": "auc"}, "write [auc]"),
    "an empty list": ({"metrics": []}, "evaluate.metrics"),
    "an unknown average": ({"metrics": ["f1(average=mean)"]}, "binary, macro, micro or weighted"),
    "no micro average": ({"metrics": ["auc(average=micro)"]}, "binary, macro or weighted"),
    "another one measured": (
        {"metrics": ["f1(average=macro)", "f1(average=micro)"], "metric": "test_f1"},
        "write test_f1_macro",
    ),
    "no bins": ({"metrics": ["ece(bins=0)"]}, "at least 1"),
    "an unknown statistic": (
        {"metrics": ["auc"], "metric": "client_auc_foo"},
        "client_auc has no 'foo'; known: mean, p10, p50, p90, samples, std, worst",
    ),
    "a confusion of numbers": ({"confusion": True}, "these targets are numbers", NUMBERS),
    "a confusion of many classes": ({"confusion": True}, "is for 100 classes at most", MANY),
    "a slip in a statistic": ({"metric": "personal_f1_wrst"}, "did you mean 'worst'?"),
    "a slip in a kind": ({"metric": "test_auk"}, "found 'test_auk'; did you mean 'test_auc'?"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_measured_is_refused_in_one_line(case):
    evaluate, told, *data = REFUSED[case]
    with pytest.raises(ScenarioError) as refused:
        run(evaluate=evaluate, data=data[0] if data else MEASURED["data"])
    (line,) = str(refused.value).splitlines()
    assert told in line


@pytest.mark.long
def test_the_page_says_what_happens(root, capsys, own_kinds):
    page = (root / "docs/scenarios/metrics.md").read_text(encoding="utf-8")
    result = fedsim.run(yaml.safe_load(block(page, "measured")))
    assert result.summary["final"][0] == result.rounds["test_auc"].iloc[-1] > 0.9
    assert {"test_recall", "test_brier", "client_auc_undefined"} <= set(result.rounds)
    own = compile(block(page, "own_metric"), "docs/scenarios/metrics.md", "exec")
    exec(own, {"__name__": "page"})
    assert capsys.readouterr().out.endswith(block(page, "printed by own_metric"))
